"""`mainstay sim`: run scenarios in virtual time, with faults, and see whether every promise holds.

One file for each group of commands; what they share is in telling.py. The simulator itself is imported where a command
needs it: naming the commands must stay quick.
"""

import click

from mainstay.cli.simulating.replaying import diff, replay, shrink
from mainstay.cli.simulating.running import continue_, faults, list_scenarios, run
from mainstay.cli.simulating.searching import search
from mainstay.cli.simulating.serving import serve
from mainstay.cli.simulating.sweeping import lineage, sieve, sweep


@click.group()
def sim() -> None:
    """Run scenarios in virtual time, with faults, and check every promise."""


for command in (
    *(list_scenarios, faults, run, continue_),
    *(search, sweep, lineage, sieve),
    *(replay, shrink, diff, serve),
):
    sim.add_command(command)
