"""The simulated network: hosts, links, names, sockets and TCP."""
