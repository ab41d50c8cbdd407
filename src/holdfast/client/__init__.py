"""Asks: start, signal, cancel, result, list, history. Reading needs no worker; writing goes through the inbox, or
through the lease where it must not wait."""
