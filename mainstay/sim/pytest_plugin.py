"""Run coroutine tests in the simulator.

A coroutine test runs on a `Simulation` of its own when it is marked `@pytest.mark.sim`, when it asks for the `sim`
fixture, or when `mainstay_async_tests = "sim"` is set for the project. Marked `@pytest.mark.real_loop` it runs on the
production loop, with a time limit. All other tests are left to other plugins, so the plugin gets along with
pytest-asyncio.

A coroutine test may take 30 days of virtual time, or what it is given as `@pytest.mark.sim(limit=...)`, a `timedelta`
or None: a test that waits for ever while some other task sets timers would otherwise go on without end.

Each example of a Hypothesis test is a run of its own.

The same seed is the same run. A test has one seed, or several: `@pytest.mark.sim(seeds=50)` makes fifty tests of it,
with seeds from 0 on and fixtures of their own, and `--sim-seeds 50` does so with all that do not name theirs. A test
that fails says with which seed, how far it had come, what had gone wrong by then and who was waiting where, and how to
run it again with `--sim-seed`: the one seed of all tests that do not name a single one themselves.
"""

import functools
import inspect
import shlex
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

# The simulator itself is imported where it is used: pytest loads this file in every project of those who have installed
# Mainstay.
if TYPE_CHECKING:
    from mainstay.sim.simulation import Simulation

REAL_LOOP_LIMIT: Final = timedelta(seconds=60)
# Long for a test, and passed in half a minute of real time by a task that wakes up once a second.
SIM_LIMIT: Final = timedelta(days=30)


_SEED: Final = "_sim_seed"  # The fixture by which a test has several seeds.
_FAULTS_SHOWN: Final = 20
_TASKS_SHOWN: Final = 30
_TOLD: Final = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mainstay")
    group.addoption("--sim-seed", type=int, default=None, metavar="N", help="default seed of simulated tests (0)")
    group.addoption(
        "--sim-seeds", type=int, default=1, metavar="N", help="default number of seeds of simulated tests (1)"
    )
    parser.addini("mainstay_async_tests", 'set to "sim" to run all coroutine tests in the simulator', default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "sim(seed=0, seeds=1, limit=timedelta(days=30)): run a coroutine test in the simulator, with one seed or many",
    )
    config.addinivalue_line("markers", "real_loop: run a coroutine test on the production loop")
    if config.getini("mainstay_async_tests") not in ("", "sim"):
        raise pytest.UsageError('mainstay_async_tests can only be "sim", or absent')


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> "Iterator[Simulation]":
    """The simulation this test runs in. A test that is no coroutine calls `sim.run` itself."""
    from mainstay.sim.simulation import Simulation

    with Simulation(_seed(request.node)) as simulation:
        yield simulation


@pytest.fixture
def _sim_seed(request: pytest.FixtureRequest) -> int:
    """Not requested by tests: it is there to be parametrized."""
    return int(request.param)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    node = metafunc.definition
    is_simulated = inspect.iscoroutinefunction(metafunc.function) and _find_loop(node) == "sim"
    if getattr(metafunc.function, "hypothesis", None) is not None or not (
        is_simulated or "sim" in metafunc.fixturenames
    ):
        return
    seeds = _seeds(node)
    if seeds is not None:
        metafunc.fixturenames.append(_SEED)
        metafunc.parametrize(_SEED, seeds, indirect=True, ids=[f"seed-{seed}" for seed in seeds])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and report.failed and (told := item.stash.get(_TOLD, "")):
        report.sections.append(("the simulation", told))
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    hypothesis = getattr(pyfuncitem.obj, "hypothesis", None)
    test = pyfuncitem.obj if hypothesis is None else hypothesis.inner_test
    loop = _find_loop(pyfuncitem) if inspect.iscoroutinefunction(test) else None
    if loop is None:
        return (yield)
    runner = (
        _in_simulator(test, pyfuncitem, each_its_own=hypothesis is not None) if loop == "sim" else _on_real_loop(test)
    )
    target, name = (pyfuncitem, "obj") if hypothesis is None else (hypothesis, "inner_test")
    setattr(target, name, runner)
    try:
        return (yield)
    finally:
        setattr(target, name, test)


def _marks(item: pytest.Item) -> Iterator[pytest.Mark]:
    """All marks of a test, the closest first. Those of a parameter are closest, and stand behind the function's own."""
    for node in reversed(item.listchain()):
        yield from reversed(node.own_markers)


def _find_loop(item: pytest.Function) -> Literal["sim", "real"] | None:
    for mark in _marks(item):
        if mark.name == "sim":
            return "sim"
        if mark.name == "real_loop":
            return "real"
    if "sim" in item.fixturenames or item.config.getini("mainstay_async_tests") == "sim":
        return "sim"
    return None


def _seed(item: pytest.Item) -> int:
    """The one of this test."""
    if (asked := item.config.getoption("--sim-seed")) is not None:
        own = _marked(item, "seed")
        return int(asked) if own is None else int(own)
    several = getattr(item, "callspec", None)
    if several is not None and _SEED in several.params:
        return int(several.params[_SEED])
    return int(_marked(item, "seed") or 0)


def _seeds(item: pytest.Item) -> Sequence[int] | None:
    """If it is to be run with several, which."""
    asked: int | None = item.config.getoption("--sim-seed")
    own = _marked(item, "seeds")
    if own is None:
        count = int(item.config.getoption("--sim-seeds"))
        return range(count) if count > 1 and asked is None and _marked(item, "seed") is None else None
    if asked is not None:
        return [asked]
    return range(own) if isinstance(own, int) else list(own)


def _marked(item: pytest.Item, name: str) -> Any:
    """What the closest mark says of this that says anything."""
    return next((mark.kwargs[name] for mark in _marks(item) if mark.name == "sim" and name in mark.kwargs), None)


def _limit(item: pytest.Item) -> timedelta | None:
    for mark in _marks(item):
        if mark.name == "sim" and "limit" in mark.kwargs:
            limit: timedelta | None = mark.kwargs["limit"]
            return limit
    return SIM_LIMIT


def _in_simulator(
    test: Callable[..., Coroutine[Any, Any, None]], item: pytest.Function, *, each_its_own: bool
) -> Callable[..., None]:
    from mainstay.sim.simulation import Simulation

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        simulation = kwargs.get("sim")
        if each_its_own or not isinstance(simulation, Simulation):
            simulation = Simulation(_seed(item))
            if "sim" in kwargs:
                kwargs["sim"] = simulation
        item.stash[_TOLD] = ""
        # Closed here and not by the fixture: what fails in the end belongs to the test.
        with simulation:
            try:
                simulation.run(test(*args, **kwargs), limit=_limit(item))
            except Exception:
                item.stash[_TOLD] = _told(item, simulation)  # Now: when it is closed, no task waits any more.
                raise

    return run


def _told(item: pytest.Function, simulation: "Simulation") -> str:
    """What is to be known about a run that has failed."""
    from mainstay.sim.loop.task_stack import describe, is_own

    tasks = simulation.loop.tasks()
    own = [task for task in tasks if is_own(task)]
    others = len(tasks) - len(own)
    happened = [line for tell in simulation.tellers for line in tell()]
    path = item.nodeid.partition("[")[0]
    lines = [
        f"seed {simulation.seed}, {simulation.loop.time():.3f} s of virtual time",
        f"repeat with: pytest {shlex.quote(path)} --sim-seed {simulation.seed}",
        f"injected faults:{'' if happened else ' none'}",
        *_some(happened, _FAULTS_SHOWN, last=True),
        f"waiting tasks, besides {others} of the cluster:{'' if own else ' none'}",
        *_some(describe(own).splitlines(), _TASKS_SHOWN),
    ]
    return "\n".join(lines)


def _some(lines: Sequence[str], count: int, *, last: bool = False) -> list[str]:
    """The first of them, or the last."""
    left = len(lines) - count
    if left <= 0:
        return [f"  {line.strip()}" for line in lines]
    shown = [f"  {line.strip()}" for line in (lines[-count:] if last else lines[:count])]
    return [f"  ({left} before that)", *shown] if last else [*shown, f"  (and {left} more)"]


def _on_real_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    from mainstay.env import tasks

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with tasks.timeout(REAL_LOOP_LIMIT):
                await test(*args, **kwargs)

        tasks.run(limited())

    return run
