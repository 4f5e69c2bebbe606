"""What the scheduler tells `why`, `timeline`, `debug` and `plan`: replayed decisions, and cures."""
