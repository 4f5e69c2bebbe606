"""What the scheduler tells `why`, `timeline`, `debug` and `plan`: decisions made again, and cures."""
