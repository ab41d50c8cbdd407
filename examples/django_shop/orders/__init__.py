"""A package of the example."""
