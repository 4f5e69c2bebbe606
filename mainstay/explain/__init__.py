"""Why: the cluster's decisions put into words.

Everything here asks a `Journal` (journal/interface.py) and nothing else, so the same words come out of a living
cluster, of a bundle, and of a simulated run. Nothing here writes to a cluster.
"""
