"""The process runner, with real processes."""
