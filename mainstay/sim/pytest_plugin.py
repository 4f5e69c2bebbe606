"""Run coroutine tests in the simulator.

A coroutine test runs on a `Simulation` of its own when it is marked `@pytest.mark.sim`, when it asks for the `sim`
fixture, or when `mainstay_async_tests = "sim"` is set for the project. Marked `@pytest.mark.real_loop` it runs on the
production loop, with a time limit. All other tests are left to whoever else runs them, so the plugin gets along with
pytest-asyncio.

A coroutine test may take 30 days of virtual time, or what it is given as `@pytest.mark.sim(limit=...)`, a `timedelta`
or None: a test that waits for ever while some other task sets timers would otherwise go on without end.

Each example of a Hypothesis test is a run of its own. A failing test says which seed it ran with; `--sim-seed` gives
that seed to all tests that do not name one themselves.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

# The simulator itself is imported where it is used: pytest loads this file in every project of whoever has installed
# Mainstay.
if TYPE_CHECKING:
    from mainstay.sim.simulation import Simulation

REAL_LOOP_LIMIT: Final = timedelta(seconds=60)
# Long for a test, and passed in half a minute of real time by a task that wakes up once a second.
SIM_LIMIT: Final = timedelta(days=30)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("mainstay").addoption(
        "--sim-seed", type=int, default=0, metavar="N", help="seed of simulated tests that do not name one (0)"
    )
    parser.addini("mainstay_async_tests", 'set to "sim" to run all coroutine tests in the simulator', default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sim(seed=0, limit=timedelta(days=30)): run a coroutine test in the simulator")
    config.addinivalue_line("markers", "real_loop: run a coroutine test on the production loop")
    if config.getini("mainstay_async_tests") not in ("", "sim"):
        raise pytest.UsageError('mainstay_async_tests can only be "sim", or absent')


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> "Iterator[Simulation]":
    """The simulation this test runs in. A test that is no coroutine calls `sim.run` itself."""
    from mainstay.sim.simulation import Simulation

    with Simulation(_seed(request.node)) as simulation:
        yield simulation


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    hypothesis = getattr(pyfuncitem.obj, "hypothesis", None)
    test = pyfuncitem.obj if hypothesis is None else hypothesis.inner_test
    loop = _loop_of(pyfuncitem) if inspect.iscoroutinefunction(test) else None
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


def _loop_of(item: pytest.Function) -> Literal["sim", "real"] | None:
    for mark in _marks(item):
        if mark.name == "sim":
            return "sim"
        if mark.name == "real_loop":
            return "real"
    if "sim" in item.fixturenames or item.config.getini("mainstay_async_tests") == "sim":
        return "sim"
    return None


def _seed(item: pytest.Item) -> int:
    for mark in _marks(item):
        if mark.name == "sim" and "seed" in mark.kwargs:
            return int(mark.kwargs["seed"])
    return int(item.config.getoption("--sim-seed"))


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
        # Closed here and not by the fixture: what fails in the end belongs to the test.
        with simulation:
            simulation.run(test(*args, **kwargs), limit=_limit(item))

    return run


def _on_real_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    from mainstay.env import tasks

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with tasks.timeout(REAL_LOOP_LIMIT):
                await test(*args, **kwargs)

        tasks.run(limited())

    return run
