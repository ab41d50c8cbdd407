"""Absurd: its tasks, and how it is measured."""
