"""Repair: find state that has lost its owner, and correct it where that is safe."""
