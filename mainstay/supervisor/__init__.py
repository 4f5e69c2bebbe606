"""Keeps the processes of a cluster on one machine running: starts, adopts, restarts and stops them.

`decide.py` says what to do, as a plain function; `supervisor.py` does it; `machine.py` is the seam to the machine's
processes; `records.py` is what is written down, so that a supervisor can be killed and the next one goes on. What the
processes are is not known here: that is for `mainstay up` (cli/cluster.py).
"""
