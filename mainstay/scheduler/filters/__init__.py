"""Reasons to refuse a node, one file each. See ../filtering.py for how they are put together.

A filter is a module with
- `PLUGIN`: what Kubernetes calls it;
- `passing(columns, pod, rows)`: which of the rows it lets pass, or None if it has nothing to say about this pod;
- `refusals(columns, pod, ring)`: its reasons on all nodes, for people: not for the hot path.
"""
