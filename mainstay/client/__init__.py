"""The cluster as seen from outside: requests, and caches that follow it.

`Client` (client.py) asks an API server, ours or a Kubernetes one; what it may raise is in errors.py, whom it asks and
as whom in config.py. Client and server never import each other: they meet at the wire.
"""
