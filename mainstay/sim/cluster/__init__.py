"""A simulated cluster: servers over one store, programs, machines, and the history of all that happened."""
