"""`mainstay sim run --narrate` and `--bug`: a worked example beside its run, and the design that it warns of."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from mainstay.cli.exits import Exit
from mainstay.cli.sim.report import report_errors, say_json

if TYPE_CHECKING:
    from mainstay.sim.run.scenario import Scenario

_EXITS = {"violated": Exit.VIOLATED, "stuck": Exit.STUCK, "failed": Exit.FAILED}


def choose_narrated(chosen: "Mapping[str, Scenario]", plant: str) -> "Scenario":
    """The one scenario that is to be narrated. Raises a usage error."""
    from mainstay.scenarios import SCENARIOS

    if plant:
        raise click.UsageError("--plant excludes --narrate and --bug: remove one")
    names = ", ".join(name for name, each in SCENARIOS.items() if each.narration is not None)
    if len(chosen) > 1:
        raise click.UsageError(f"--narrate and --bug need one scenario: {names}")
    (scenario,) = chosen.values()
    if scenario.narration is None:
        raise click.UsageError(f"scenario {scenario.name!r} is not a worked example: use one of {names}")
    return scenario


def name_weak_design(scenario: "Scenario") -> str:
    """As --plant takes it."""
    assert scenario.narration is not None
    planted = scenario.narration.weak_design
    return f"{planted.__module__}:{planted.__name__}"


def print_narration(scenario: "Scenario", seed: int | None, *, is_weak: bool, as_json: bool) -> Exit:
    """Make the run, print it, and choose the exit code."""
    from mainstay.sim.narration.runner import narrate
    from mainstay.sim.narration.text import render_narration

    with report_errors():
        told = narrate(scenario, seed=seed, is_weak=is_weak)
    if as_json:
        say_json(told.as_object())
    else:
        click.echo(render_narration(told))
    return _EXITS.get(told.verdict, Exit.SATISFIED)
