"""What runs containers: real processes, or nothing at all."""
