"""Decides which steps may begin under a limit, once for every store. Each store brings a desk over its tables."""
