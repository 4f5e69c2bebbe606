"""Namespace deletion: delete everything in a terminating namespace, then release its finalizer."""
