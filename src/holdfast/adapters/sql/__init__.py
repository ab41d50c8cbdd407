"""What the SQL stores share: rows as values of the ports, which runs a list shows, who hears of a write.

Nothing here speaks to a database; the dialects do.
"""
