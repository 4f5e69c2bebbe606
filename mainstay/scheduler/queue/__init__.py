"""The scheduling queue: pods that wait for a node, ordered by priority, backoff and what may cure them."""
