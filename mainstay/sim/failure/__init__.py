"""What a failing run gives: all of it made from its bundle (run_bundle.py), by making the run again.

rerun.py makes the run again, in a fork, and takes a look at it there; report.py puts together what is told of it.
"""
