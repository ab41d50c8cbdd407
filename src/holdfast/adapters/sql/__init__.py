"""What the SQL stores share: rows as values of the ports, the order of lists, and listeners.

Nothing here talks to a database; the dialects do.
"""
