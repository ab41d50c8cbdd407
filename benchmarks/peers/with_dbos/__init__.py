"""DBOS: its workflows, its processes, and how it is measured."""
