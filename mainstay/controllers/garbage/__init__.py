"""What has lost its owners goes; what is told to wait for its dependents, or to let them go, does so.

    vertices.py      what is kept of an object: its name, its owners, whether it is leaving
    graph.py      who depends on whom, and who has to be looked at when something changes
    decide.py   what should become of an object: a plain function of what was read of it and its owners
    follow.py  the graph is kept true for all kinds, custom ones included, as they come and go
    loop.py   at work: reads what a decision needs afresh, decides, acts

The graph says what to look at, and never what may be deleted. Before anything is deleted, the object and its owners
are read from the server, and the deletion holds only for what was read.
"""
