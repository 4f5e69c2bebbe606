"""The progress record of each workload: how far it has come, and what limits it (SPEC F5)."""
