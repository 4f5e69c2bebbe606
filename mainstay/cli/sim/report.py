"""What all commands about simulated runs share: options, repeated runs, and reports."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from mainstay.cli.exits import Exit

if TYPE_CHECKING:
    from mainstay.sim.run.bundle import RunBundle
    from mainstay.sim.run.determinism_guard import DeterminismGuard, SampledRuns
    from mainstay.sim.run.run import Patch, RunResult
    from mainstay.sim.run.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])

SAY_EVERY: Final = timedelta(seconds=2)
BUNDLE_ENDING: Final = ".run.json"

jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), metavar="J", help="Number of parallel runs  [default: one per core]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line")
plant_option = click.option(
    "--plant", default="", metavar="MODULE:FUNCTION", help="Plant a bug with this monkeypatch function"
)
bundles_option = click.option(
    "--bundles",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("sim-failures"),
    show_default=True,
    metavar="DIR",
    help="Directory for bundles of failed runs",
)
check_option = click.option("--check/--no-check", default=None, help="Repeat all runs, or none  [default: 1 of 20]")


def seeds_options(command: F) -> F:
    """--seeds and --first-seed."""
    many = click.option(
        "--seeds", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Number of runs"
    )
    first = click.option(
        "--first-seed",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        metavar="S",
        help="Seed of the first run",
    )
    return many(first(command))


def find_scenario(name: str) -> "Scenario":
    """Find the scenario of this name. Raises a usage error."""
    from mainstay.sim.run import lookup

    try:
        return lookup.find_scenario(name)
    except lookup.UnknownScenario as error:
        raise click.UsageError(str(error)) from None


def choose_scenarios(name: str | None, is_all: bool) -> "dict[str, Scenario]":
    """Choose one scenario, or all. Raises a usage error for neither and both."""
    from mainstay.scenarios import SCENARIOS

    if is_all:
        if name is not None:
            raise click.UsageError(f"scenario {name!r} and --all exclude each other: remove one")
        return SCENARIOS
    if name is None:
        raise click.UsageError("missing argument SCENARIO (see `mainstay sim list`), or option --all")
    return {name: find_scenario(name)}


def keep(
    directory: Path,
    name: str,
    plant: str,
    result: "RunResult",
    *,
    what: str = "",
    has_journal: bool = False,
    lasts: timedelta | None = None,
) -> Path | None:
    """Write the bundle of a run. `what` tells runs of one seed apart. None if the run cannot be bundled."""
    from mainstay.env.disk import make_directory
    from mainstay.sim.run.bundle import RunBundle, can_be_kept

    if not can_be_kept(result):
        return None
    make_directory(directory)
    path = directory / f"{name.replace(':', '.')}-{result.seed}{what and '-'}{what}{BUNDLE_ENDING}"
    RunBundle.of(result, scenario=name, planted=plant, has_journal=has_journal, lasts=lasts).save(path)
    return path


def find_patch(plant: str) -> "Patch | None":
    """Find the function that plants a bug. Raises a usage error."""
    from mainstay.sim.run import lookup

    try:
        return lookup.find_patch(plant) if plant else None
    except lookup.UnknownScenario as error:
        raise click.UsageError(str(error)) from None


def load_bundle(path: Path) -> "RunBundle":
    """Raises `BadBundle`."""
    from mainstay.sim.run.bundle import RunBundle

    return RunBundle.load(path)


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn errors of the simulator into errors of the command line."""
    from mainstay.sim.errors import SimulationError
    from mainstay.sim.run.lookup import UnknownScenario

    try:
        yield
    except (SimulationError, UnknownScenario) as error:
        raise click.ClickException(str(error)) from error


def say_json(fields: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(fields).decode())


def choose_exit(results: "Iterable[RunResult]") -> Exit:
    """Choose the exit code of the worst verdict."""
    verdicts = {result.verdict for result in results}
    for verdict, code in (
        ("violated", Exit.VIOLATED),
        ("stuck", Exit.STUCK),
        ("failed", Exit.FAILED),
        ("different", Exit.DIFFERENT),
    ):
        if verdict in verdicts:
            return code
    return Exit.SATISFIED


class RepeatCheck:
    """Repeats some runs to check determinism (determinism_guard.py). A failing repeat does not stop the rest."""

    def __init__(self, guard: "DeterminismGuard") -> None:
        self._guard = guard
        self._has_failed = False

    @property
    def is_on(self) -> bool:
        return self._guard.one_in > 0

    @property
    def repeated(self) -> int:
        """How many runs were repeated so far."""
        return self._guard.checked

    def due(self) -> "SampledRuns":
        return self._guard.due()

    def check(self, scenario: str, due: "SampledRuns", *, plant: str, strategy: str, jobs: int) -> "list[RunResult]":
        """Repeat the runs that are due. Returns those that differ."""
        from mainstay.sim.run.repeat_process import RepeatFailed

        try:
            return self._guard.check(scenario, due, planted=plant, strategy=strategy, jobs=jobs)
        except RepeatFailed as error:
            self._has_failed = True
            click.echo(f"mainstay: cannot repeat runs of {scenario}: {error}", err=True)
            return []

    def choose_exit(self, results: "Iterable[RunResult]") -> Exit:
        """Choose the exit code of the runs; an error if all have passed and some could not be repeated."""
        return choose_exit(results) or (Exit.ERROR if self._has_failed else Exit.SATISFIED)


@contextmanager
def repeat_check(check: bool | None) -> Iterator[RepeatCheck]:
    """Repeat as many runs as --check says."""
    from mainstay.sim.run.determinism_guard import ONE_IN, DeterminismGuard

    with DeterminismGuard(ONE_IN if check is None else int(check)) as guard:
        yield RepeatCheck(guard)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How the runs of a command are made, and how they are shown."""

    jobs: int
    as_json: bool = False
    strategy: str = "random"
    plant: str = ""
    bundles: Path | None = None
    """Where the bundles of failed runs go. None: they get none."""


class ProgressPrinter:
    """Prints the progress of long work on standard error now and then."""

    def __init__(self, what: str) -> None:
        from mainstay.env import SystemClock

        self._what = what
        self._clock = SystemClock()
        self._began_ns = self._said_ns = self._clock.monotonic_ns()

    def say(self, text: str) -> None:
        """Print this if nothing was printed for a while."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._said_ns >= SAY_EVERY / timedelta(microseconds=1) * 1000:
            self._said_ns = now_ns
            click.echo(f"{self._what}: {text}", err=True)

    @property
    def took_s(self) -> float:
        return (self._clock.monotonic_ns() - self._began_ns) / 1e9
