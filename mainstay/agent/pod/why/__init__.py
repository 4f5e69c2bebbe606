"""What the agent tells `why`: containers that wait, crash, fail or are not ready."""
