"""Which smallest change lets a pod run: tried out with the scheduler's own `decide`."""
