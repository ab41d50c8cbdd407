"""Adapters touch the outside: each keeps the promises of `holdfast.ports` with one technology.

They know the core's values and the ports' contracts, never the engine, and never each other.
"""
