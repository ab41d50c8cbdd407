"""Who may begin under a limit, decided once for every store: each brings a desk with its tables."""
