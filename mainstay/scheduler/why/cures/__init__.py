"""Which smallest change lets a pod run: verified with the scheduler's own `decide`."""
