"""What all commands about simulated runs share: options, making some runs twice, and saying what came of them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from mainstay.cli.exits import Exit
from mainstay.env import SystemClock
from mainstay.env.disk import make_directory

if TYPE_CHECKING:
    from mainstay.sim.run.bundle import RunBundle
    from mainstay.sim.run.determinism_guard import DeterminismGuard, SampledRuns
    from mainstay.sim.run.run import Patch, RunResult
    from mainstay.sim.run.scenario import Scenario

F = TypeVar("F", bound=Callable[..., Any])

SAY_EVERY: Final = timedelta(seconds=2)
BUNDLE_ENDING: Final = ".run.json"

jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), metavar="J", help="How many runs at once. If absent: one for each core."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object per run and line.")
plant_option = click.option(
    "--plant", default="", metavar="MODULE:FUNCTION", help="Plant a bug: the function is given a pytest.MonkeyPatch."
)
bundles_option = click.option(
    "--bundles",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("sim-failures"),
    show_default=True,
    metavar="DIR",
    help="Where to write the bundle of a run that has not passed.",
)
check_option = click.option(
    "--check/--no-check",
    default=None,
    help="Make all runs a second time, in another process, or none. If absent: one of twenty, at least one of each"
    " scenario.",
)


def seeds_options(command: F) -> F:
    """--seeds and --first-seed."""
    many = click.option(
        "--seeds", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="How many runs."
    )
    first = click.option(
        "--first-seed",
        type=click.IntRange(min=0),
        default=1,
        show_default=True,
        metavar="S",
        help="The first run's seed; the others follow.",
    )
    return many(first(command))


def named(name: str) -> "Scenario":
    """The scenario of this name, or a usage error that says what to do."""
    from mainstay.sim.run.lookup import UnknownScenario, find_scenario

    try:
        return find_scenario(name)
    except UnknownScenario as error:
        raise click.UsageError(str(error)) from None


def chosen_scenarios(name: str | None, is_all: bool) -> "dict[str, Scenario]":
    """One, or all of them. A usage error if neither or both are asked for."""
    from mainstay.scenarios import SCENARIOS

    if is_all:
        if name is not None:
            raise click.UsageError("Either one scenario, or --all.")
        return SCENARIOS
    if name is None:
        raise click.UsageError("Which scenario? Name one, or say --all; `mainstay sim list` has them.")
    return {name: named(name)}


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
    """Write the bundle of a run. `what` tells those of one seed from each other. None if there can be no bundle."""
    from mainstay.sim.run.bundle import RunBundle, can_be_kept

    if not can_be_kept(result):
        return None
    make_directory(directory)
    path = directory / f"{name.replace(':', '.')}-{result.seed}{what and '-'}{what}{BUNDLE_ENDING}"
    RunBundle.of(result, scenario=name, planted=plant, has_journal=has_journal, lasts=lasts).save(path)
    return path


def patch_of(plant: str) -> "Patch | None":
    """What plants the bug of this name, or a usage error that says what to do."""
    from mainstay.sim.run.lookup import UnknownScenario, find_patch

    try:
        return find_patch(plant) if plant else None
    except UnknownScenario as error:
        raise click.UsageError(str(error)) from None


def opened_bundle(path: Path) -> "RunBundle":
    """Raises `BadBundle`."""
    from mainstay.sim.run.bundle import RunBundle

    return RunBundle.load(path)


@contextmanager
def said_errors() -> Iterator[None]:
    """What the simulator cannot do is said in its own words."""
    from mainstay.sim.errors import SimulationError
    from mainstay.sim.run.lookup import UnknownScenario

    try:
        yield
    except (SimulationError, UnknownScenario) as error:
        raise click.ClickException(str(error)) from error


def say_json(fields: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(fields).decode())


def exit_of(results: "Iterable[RunResult]") -> Exit:
    """By the worst of the verdicts: a broken promise; a run that cannot end; one that failed; one that is not the same
    in another process."""
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


class Guarding:
    """Makes some runs twice (guard.py). What keeps it from that is said, and does not end what else is done."""

    def __init__(self, guard: "DeterminismGuard") -> None:
        self._guard = guard
        self._has_failed = False

    @property
    def is_on(self) -> bool:
        return self._guard.one_in > 0

    @property
    def made(self) -> int:
        """How many runs were made twice so far."""
        return self._guard.checked

    def due(self) -> "SampledRuns":
        return self._guard.due()

    def check(self, scenario: str, due: "SampledRuns", *, plant: str, strategy: str, jobs: int) -> "list[RunResult]":
        """Those that were different."""
        from mainstay.sim.run.repeat_process import RepeatFailed

        try:
            return self._guard.check(scenario, due, planted=plant, strategy=strategy, jobs=jobs)
        except RepeatFailed as error:
            self._has_failed = True
            click.echo(f"Error: no run of {scenario} could be made twice: {error}", err=True)
            return []

    def exit_of(self, results: "Iterable[RunResult]") -> Exit:
        """As that of the runs. If all have passed and some could not be made twice, nothing is known of that."""
        return exit_of(results) or (Exit.ERROR if self._has_failed else Exit.SATISFIED)


@contextmanager
def guarding(check: bool | None) -> Iterator[Guarding]:
    """Makes as many runs twice as --check says."""
    from mainstay.sim.run.determinism_guard import ONE_IN, DeterminismGuard

    with DeterminismGuard(ONE_IN if check is None else int(check)) as guard:
        yield Guarding(guard)


class Progress:
    """Says now and then, on standard error, how far a long work has come."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._clock = SystemClock()
        self._began_ns = self._said_ns = self._clock.monotonic_ns()

    def say(self, text: str) -> None:
        """Say this if nothing was said for a while."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._said_ns >= SAY_EVERY / timedelta(microseconds=1) * 1000:
            self._said_ns = now_ns
            click.echo(f"{self._what}: {text}", err=True)

    @property
    def took_s(self) -> float:
        return (self._clock.monotonic_ns() - self._began_ns) / 1e9
