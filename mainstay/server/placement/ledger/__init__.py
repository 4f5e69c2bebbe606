"""What each node has given away: values and plain functions, over which the commit points of the server decide."""
