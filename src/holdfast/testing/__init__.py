"""What Holdfast ships for tests: of stores (`holdfast.testing.conformance`). Importing it needs nothing else."""
