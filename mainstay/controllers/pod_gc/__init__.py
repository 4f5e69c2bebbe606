"""Pod garbage collection: delete finished pods beyond a threshold, and deleted pods that never had a node."""
