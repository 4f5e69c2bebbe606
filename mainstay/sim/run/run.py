"""One run of a scenario from its seed, and the verdict.

Boot, which is the same for all seeds; then, from the seed, work and faults with all checkers on; then healing, and it
must come to rest within a bound of virtual time; then the last checks. The same seed gives the same trace hash,
whether the run is made here or in a fork of a process that has booted the scenario for many runs (forks.py).

A run ends with one of four verdicts. *passed*. *violated*: a checker has seen a promise broken. *stuck*: it cannot come
to its end: nothing can ever happen again, or time stands still, or it is past its limit. *failed*: something raised
what was not handled, in the code under test or in the scenario itself.
"""

import contextlib
import gc
import traceback
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Final

import msgspec

from mainstay.env import tasks
from mainstay.sim.checkers import Checker, Violated
from mainstay.sim.checkers.always import always
from mainstay.sim.checkers.quiescence import Quiescence
from mainstay.sim.checkers.run_checkers import RunCheckers
from mainstay.sim.cluster.expected_state import ExpectedState
from mainstay.sim.cluster.final_state import check_end
from mainstay.sim.cluster.world import World
from mainstay.sim.errors import Deadlock, Livelock, TooLong
from mainstay.sim.faults.schedule import NAMES
from mainstay.sim.loop.task_stack import describe
from mainstay.sim.loop.trace import Choice, Trace
from mainstay.sim.run.choices import Tape
from mainstay.sim.run.scenario import BOOT_SEED, Scenario
from mainstay.sim.simulation import Simulation
from mainstay.sim.strategies import Strategy
from mainstay.sim.strategies.table import RANDOM, choose_strategy, describe_strategy

Patch = Callable[[], object]
"""Changes the code under test, to plant a bug for instance. The caller sees to it that it is undone."""

Disturb = Callable[[World], None]
"""Sets up what goes wrong in a run."""

BOOT_MAX: Final = timedelta(minutes=10)  # Of virtual time.
END_MAX: Final = timedelta(minutes=10)  # For what is done after the last write.
_FRAMES_SHOWN: Final = 3
_TASKS_SHOWN: Final = 60


class RunVerdict(StrEnum):
    PASSED = "passed"
    VIOLATED = "violated"
    STUCK = "stuck"
    FAILED = "failed"
    DIFFERENT = "different"
    """Made again in another process it was another run (determinism_guard.py)."""


class RunResult(msgspec.Struct, frozen=True):
    """What became of a run."""

    scenario: str
    seed: int
    verdict: RunVerdict
    problem: str
    """What is wrong. Empty if it has passed."""
    trace: str
    """The hash of all that happened. Empty if that is not known."""
    virtual_s: float
    """How long it took, boot included, in virtual time."""
    choices: int
    """How many choices the run has made since its boot."""
    told: str = ""
    """What the scenario has to say about it."""
    drawn: str = ""
    """What the seed has drawn: the strategy, which faults could happen, and who stayed dead in the end."""
    tape: list[Choice] = []
    """The choices that were not benign. Of a run that has passed, none are kept."""
    waiting: str = ""
    """Which tasks were waiting where when it ended, if it has not passed."""
    expected: ExpectedState | None = None
    """What it should have ended with, if that is given (sim/cluster/final_state.py) and it has not passed."""

    @property
    def is_passed(self) -> bool:
        return self.verdict is RunVerdict.PASSED


def run(scenario: Scenario, seed: int, *, tape: Tape | None = None, patch: Patch | None = None) -> RunResult:
    """Run a scenario once, in this process. With a `tape`, its choices are those, and benign where it says nothing."""
    if patch is not None:
        patch()
    with Booted(scenario) as booted:
        return booted.go(seed, tape)


class Booted:
    """A scenario that is ready to begin. Can go on once; forks of this process can, once each."""

    def __init__(
        self, scenario: Scenario, *, keep_trace: bool = False, journal: bool = False, trace: Trace | None = None
    ) -> None:
        self.scenario = scenario
        self.sim = Simulation(BOOT_SEED, keep_trace=keep_trace, trace=trace)
        self.world = World(self.sim, journal=journal)
        self.quiescence = Quiescence(scenario.calm)
        self._boot_failure: BaseException | None = None
        self._drawn: list[str] = []
        self.expected = scenario.expected
        """What the run has to end with, if that is given."""
        self.error: BaseException | None = None
        """Why the run has not passed, once it is over."""
        self.began_ns = 0
        """When the run began: all before that is the boot."""
        checkers = [*scenario.checkers(), self.quiescence]
        known = dict.fromkeys([*(each.name for each in checkers), *scenario.unchecked])
        checkers += [each for each in always() if each.name not in known]
        self._checking = RunCheckers(checkers, self.world.history, self._remember)
        try:
            self.stage = scenario.make(self.world)
            self.sim.run(self._boot(), limit=BOOT_MAX)
        except Exception as error:  # noqa: BLE001 - it is the verdict of each run
            self._boot_failure = error
        # Garbage of the boot goes now. What is left is there for good: a collector that walks it in each fork would
        # make each fork copy it.
        gc.collect()
        gc.freeze()

    def __enter__(self) -> "Booted":
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        with contextlib.suppress(Exception):  # The run is over, and has its verdict. A fork is not even closed.
            self.sim.close()

    @property
    def has_failed(self) -> bool:
        """Every run will have the same verdict, so one is enough."""
        return self._boot_failure is not None

    @property
    def tape(self) -> Tape:
        """The choices of the run, without those of the boot."""
        return self.sim.tape

    def go(
        self, seed: int, tape: Tape | None = None, *, strategy: Strategy = RANDOM, disturb: Disturb | None = None
    ) -> RunResult:
        """Make the run of this seed. With `disturb`, these faults happen and not those of the scenario."""
        if self._boot_failure is not None:
            return self._result(seed, self._boot_failure)
        self.began_ns = self.sim.loop.time_ns()
        self.sim.begin_again(seed, tape)
        scenario = self.scenario
        try:
            self.sim.run(
                self._go(disturb or self._by(strategy, tape)),
                limit=scenario.lasts + scenario.calm + scenario.silence + END_MAX,
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the verdict
            return self._result(seed, error)
        return self._result(seed, None)

    async def _boot(self) -> None:
        await self.world.boot()
        await self.stage.ready()

    def _by(self, strategy: Strategy, tape: Tape | None) -> Disturb:
        """A tape knows by which strategy it was made."""
        allowed = NAMES if self.scenario.faults is None else self.scenario.faults

        def disturb(world: World) -> None:
            drawn = strategy if tape is None else choose_strategy(world.sim.choices)
            drawn.disturb(world, allowed)
            on = ", ".join(world.faults.on) or "none"
            self._drawn.append(f"strategy {describe_strategy(drawn, world.sim.choices)}; faults: {on}")

        return disturb

    async def _go(self, disturb: Disturb) -> None:
        scenario, world = self.scenario, self.world
        disturb(world)
        await self.stage.begin()
        await tasks.sleep(scenario.lasts)
        await self.stage.finish()
        await world.heal(self._lost())
        await self._rest()
        await self.stage.check()
        await self._checking.at_end(world)
        if self.expected is not None:
            await check_end(world, self.expected)

    def _lost(self) -> dict[str, None]:
        """Who stays dead from now on: all but a core."""
        choose = self.sim.choices.choose
        lost: dict[str, None] = {}
        for group in self.stage.spares():
            if len(group) < 2 or not choose(f"core/{group[0]}/is-part", 2):
                continue
            kept = choose(f"core/{group[0]}/keeps", len(group))
            lost |= {
                name: None for place, name in enumerate(group) if place != kept and not choose(f"core/{name}/lives", 2)
            }
        if lost:
            self._drawn.append(f"permanently dead: {', '.join(lost)}")
        return lost

    async def _rest(self) -> None:
        """Wait until nothing was written for long enough. If that never is, a checker says so."""
        silence = self.scenario.silence
        until = self.sim.loop.time_ns() + (self.scenario.calm + silence) // timedelta(microseconds=1) * 1000
        await tasks.sleep(silence)
        while not self.quiescence.is_quiet_since(silence, self.sim.loop.time_ns()):
            if self.sim.loop.time_ns() > until:
                raise AssertionError("the cluster is not quiet, but the deadline has not passed")
            since_ns = self.sim.loop.time_ns() - self.quiescence.last_write_ns
            await tasks.sleep(silence - timedelta(microseconds=since_ns // 1000))

    def _remember(self, checker: Checker, error: Exception) -> None:
        self.sim.loop.failures.remember({"message": f"the checker of {checker.name}", "exception": error})

    def _result(self, seed: int, error: BaseException | None) -> RunResult:
        self.error = error
        verdict, problem = _judged(error)
        return RunResult(
            scenario=self.scenario.name,
            seed=seed,
            verdict=verdict,
            problem=problem,
            trace=self.sim.digest,
            virtual_s=self.sim.loop.time_ns() / 1e9,
            choices=len(self.sim.tape),
            told=self.stage.told if self._boot_failure is None else "",
            drawn="; ".join(self._drawn),
            tape=[] if error is None else [choice for choice in self.sim.tape if choice.chosen],
            waiting="" if error is None else self._waiting(),
            expected=None if error is None else self.expected,
        )

    def _waiting(self) -> str:
        waiting = self.sim.loop.tasks()[:_TASKS_SHOWN]
        left = len(self.sim.loop.tasks()) - len(waiting)
        return describe(waiting) + (f"\n  and {left} more" if left else "")


def _judged(error: BaseException | None) -> tuple[RunVerdict, str]:
    if error is None:
        return RunVerdict.PASSED, ""
    first: BaseException | None = error
    while first is not None:
        if isinstance(first, Violated):
            return RunVerdict.VIOLATED, str(first)
        first = first.__cause__
    if isinstance(error, Deadlock | Livelock | TooLong):
        return RunVerdict.STUCK, str(error)
    cause = error.__cause__ or error
    frames = traceback.extract_tb(cause.__traceback__)[-_FRAMES_SHOWN:]
    where = "".join(f"\n  {frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
    said = f"{error}: " if cause is not error else ""
    return RunVerdict.FAILED, f"{said}{type(cause).__name__}: {cause}{where}"
