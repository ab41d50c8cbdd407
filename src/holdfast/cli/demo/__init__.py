"""What `holdfast demo` shows.

::

    story ──▶ stage (worker processes: process, app) ──▶ ledger
      │
      ├─────▶ watch (the journal, as it grows) ──▶ screen
      └─────▶ verdict (ledger against journal)
"""
