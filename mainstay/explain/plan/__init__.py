"""What would happen if this were applied: the controllers and the scheduler decide, in memory."""
