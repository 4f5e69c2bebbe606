"""The simulator itself."""
