"""Where placement becomes true: binding, reservations, the ledger of each node, eviction."""
