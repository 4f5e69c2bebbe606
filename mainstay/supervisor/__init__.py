"""Keep the processes of a cluster on one machine running: start, adopt, restart and stop them.

`decide.py` decides, as a plain function; `supervisor.py` acts; `machine.py` is the seam to the machine's processes;
`records.py` stores which process is which, so that the next supervisor continues if this one is killed. `mainstay up`
knows what the processes are (cli/cluster.py).
"""
