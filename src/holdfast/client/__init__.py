"""The client: start, signal, cancel, result, list, history.

Reading needs no worker. Writing goes through the inbox, or takes the lease if it must not wait.
"""
