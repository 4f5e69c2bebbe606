"""What happened to an object, line by line, across all controllers, with what led to what."""
