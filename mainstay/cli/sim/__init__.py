"""`mainstay sim`: run scenarios in virtual time, with faults, and see whether every promise holds.

One file for each group of commands; what they share is in report.py. The simulator itself is imported where a command
needs it: naming the commands must stay quick.
"""

import click

from mainstay.cli.sim.replay import diff, replay, shrink
from mainstay.cli.sim.run import continue_, faults, list_scenarios, run
from mainstay.cli.sim.search import search
from mainstay.cli.sim.serve import serve
from mainstay.cli.sim.sweep import lineage, sieve, sweep


@click.group()
def sim() -> None:
    """Run scenarios in virtual time, with faults, and check every promise."""


for command in (
    *(list_scenarios, faults, run, continue_),
    *(search, sweep, lineage, sieve),
    *(replay, shrink, diff, serve),
):
    sim.add_command(command)
