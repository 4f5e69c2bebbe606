"""What code that is not ours finds during a run: time, chance, sockets and order, all from the seed."""
