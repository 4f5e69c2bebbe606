"""Services: the allocation of their addresses and ports."""
