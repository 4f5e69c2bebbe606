"""What all commands about simulated runs share: options, making many runs, and saying what came of them."""

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
    from mainstay.sim.guard import Guard
    from mainstay.sim.run import Patch, RunResult
    from mainstay.sim.run_bundle import RunBundle
    from mainstay.sim.scenario import Scenario

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
    help="Make all runs a second time, in another process, or none. If absent: one of twenty.",
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
    from mainstay.sim.finding import NotFound, scenario_of

    try:
        return scenario_of(name)
    except NotFound as error:
        raise click.UsageError(str(error)) from None


def chosen_scenarios(name: str | None, is_all: bool) -> "dict[str, Scenario]":
    """One, or all of them. A usage error if neither or both are asked for."""
    from mainstay.sim.scenarios import SCENARIOS

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
) -> Path:
    """Write the bundle of a run. `what` tells those of one seed from each other."""
    from mainstay.sim.run_bundle import RunBundle

    make_directory(directory)
    path = directory / f"{name.replace(':', '.')}-{result.seed}{what and '-'}{what}{BUNDLE_ENDING}"
    RunBundle.of(result, scenario=name, planted=plant, has_journal=has_journal, lasts=lasts).save(path)
    return path


def patch_of(plant: str) -> "Patch | None":
    """What plants the bug of this name, or a usage error that says what to do."""
    from mainstay.sim.finding import NotFound, planted

    try:
        return planted(plant) if plant else None
    except NotFound as error:
        raise click.UsageError(str(error)) from None


def opened_bundle(path: Path) -> "RunBundle":
    """Raises `BadBundle`."""
    from mainstay.sim.run_bundle import RunBundle

    return RunBundle.load(path)


@contextmanager
def said_errors() -> Iterator[None]:
    """What the simulator cannot do is said in its own words."""
    from mainstay.sim.errors import SimulationError
    from mainstay.sim.finding import NotFound

    try:
        yield
    except (SimulationError, NotFound) as error:
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


def a_guard(check: bool | None) -> "Guard":
    """That makes as many runs twice as --check says."""
    from mainstay.sim.guard import ONE_IN, Guard

    return Guard(ONE_IN if check is None else int(check))


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
