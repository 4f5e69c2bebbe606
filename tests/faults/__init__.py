"""Forty faults, each planted in a cluster of its own; `why` must name each of them in one sentence. See docs/faults.md.

- fault.py: what a fault is, what is asked about it, and what counts as a hit
- bed.py: the cluster in which one is planted, in virtual time; bystanders.py: what else goes on there
- objects.py: pods, workloads and nodes that mention only what matters
- placing.py, making.py, running.py, going.py: the forty, by theme; catalogue.py: all of them, in the order of the page
- held_out.py, held_out_again.py: others, which were in no list
- judging.py: plants one, asks, and says what came of it; real.py: ten of them on real processes
"""
