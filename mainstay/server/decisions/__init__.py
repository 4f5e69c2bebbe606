"""The journal of the cluster: collect decisions, serve them, and expose them as objects, spans and counts."""
