"""The HTTP API and the page: a client like the command line."""
