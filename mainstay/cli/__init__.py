"""The command line: reads options, starts what they ask for, and says in plain words what went wrong."""
