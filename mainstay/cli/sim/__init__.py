"""`mainstay sim`: run scenarios in virtual time, inject faults, and check every promise.

One module for each group of commands; what they share is in report.py. The simulator itself is imported where a command
needs it, so that help and completion stay quick.
"""

from typing import Final

import click

from mainstay.cli.lazy_group import CommandEntry, LazyGroup

SIM_COMMANDS: Final = (
    CommandEntry("Scenarios", "list", "List the scenarios", "mainstay.cli.sim.run:list_scenarios"),
    CommandEntry("Scenarios", "faults", "List the faults", "mainstay.cli.sim.run:faults"),
    CommandEntry("Runs", "run", "Run scenarios, once for each seed", "mainstay.cli.sim.run:run"),
    CommandEntry("Runs", "continue", "Continue a recorded cluster with faults", "mainstay.cli.sim.run:continue_"),
    CommandEntry("Runs", "search", "Search for a run that breaks a promise", "mainstay.cli.sim.search:search"),
    CommandEntry("Runs", "sweep", "Try one fault at every possible point", "mainstay.cli.sim.sweep:sweep"),
    CommandEntry("Runs", "lineage", "Try only faults that good outcomes rest on", "mainstay.cli.sim.sweep:lineage"),
    CommandEntry("Runs", "sieve", "Hide changes from one program", "mainstay.cli.sim.sweep:sieve"),
    CommandEntry("Failed runs", "replay", "Replay a failed run and compare", "mainstay.cli.sim.replay:replay"),
    CommandEntry("Failed runs", "shrink", "Reduce a failed run to what it needs", "mainstay.cli.sim.replay:shrink"),
    CommandEntry("Failed runs", "diff", "Compare a failed run with one that passes", "mainstay.cli.sim.replay:diff"),
    CommandEntry("Failed runs", "serve", "Serve the API of a run at one moment", "mainstay.cli.sim.serve:serve"),
)


@click.group(cls=LazyGroup, table=SIM_COMMANDS)
def sim() -> None:
    """Simulate clusters and inject faults.

    \b
        mainstay sim list
        mainstay sim run one-delivery --seeds 100
        mainstay sim search racing-schedulers --for 10m

    A scenario runs the real components in virtual time, with faults that the seed chooses, and checks every promise.
    The same seed gives the same run.
    """
