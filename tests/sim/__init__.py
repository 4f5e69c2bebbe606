"""The real outside: that the seams do what they say. The simulator's stand-ins are tested in tests/sim."""
