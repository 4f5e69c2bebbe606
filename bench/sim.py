"""How fast does the simulator go, how many complete runs with faults a minute does this machine make, and do they pass?

All of it is production code on simulated TCP. One process for each core; a figure is what all of them do together, and
its CPU time is that of one virtual second, or of one run.

*Virtual seconds a second*: a cluster of one API server, a scheduler and all controllers that have been elected, over
one store without a disk, with pretend nodes that renew their leases as in production (every ten seconds); no journal,
and no faults. The small one has five nodes and a user who scales a Deployment every ten seconds. The large one has a
hundred nodes: at first nothing but heartbeats, then five pods a second that are created, placed, run for ten seconds
and deleted. Boot, and the first twenty seconds, are not counted.

*Fault runs*: the worlds *core* and *full* (mainstay/scenarios/): two servers, two schedulers, two processes of
controllers, five nodes, users and operators, for 60 virtual seconds in which faults happen, as drawn from the seed;
then healing of a random core, until all is as wanted and silent; with all checkers on. All of that is counted, and so
is a share of the one boot that all runs begin with. Runs are those of seeds 1, 2, …; how many of them do not pass is a
figure of its own, and the first is shown.

*Sweep*: one fault, of all that can happen there, at each write and each delivery of a scenario (sim/run/sweep.py),
until there is no place left.

*Clean code*: some seeds of each scenario there is, with the strategy `mixed`, as `make sim-long` has thousands.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from bench.measure import Figure, Stopwatch, cores, main
from mainstay.agent.fleet import PretendSettings
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, PODS
from mainstay.client.client import Client
from mainstay.controllers.component import Controllers
from mainstay.controllers.registry import CONTROLLERS, LOOPS
from mainstay.env import Env, tasks
from mainstay.scenarios import SCENARIOS
from mainstay.scheduler.component import Scheduler
from mainstay.sim.cluster.world import World
from mainstay.sim.run.forks import LostFork, run_in_forks, run_many
from mainstay.sim.run.run import RunResult
from mainstay.sim.run.sweep import EVERYWHERE, sweep
from mainstay.sim.simulation import Simulation
from mainstay.sim.strategies.table import STRATEGIES

NAMESPACE: Final = "default"
USER: Final = "user"
SETTLES_WITHIN: Final = timedelta(seconds=20)
SCALED_EVERY: Final = timedelta(seconds=10)
PODS_PER_S: Final = 5
POD_LASTS: Final = timedelta(seconds=10)
POD: Final = {
    "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}],
    "terminationGracePeriodSeconds": 0,
}

Use = Callable[[Client], Coroutine[Any, Any, None]]


def measure(quick: bool) -> Iterable[Figure]:
    yield _virtual_seconds("5 nodes, a Deployment scaled every 10 s", 5, 60 if quick else 900, _scale, "≥ 500")
    yield _virtual_seconds("100 nodes, steady", 100, 15 if quick else 180, _do_nothing, "≥ 150")
    yield _virtual_seconds(f"100 nodes, {PODS_PER_S} pods/s", 100, 3 if quick else 40, _churn, "≥ 20")
    yield from _fault_runs("core", 10 if quick else 400, "≥ 600")
    yield from _fault_runs("full", 4 if quick else 150, "≥ 200")
    yield from _sweep("one-pod-too-many", 200 if quick else 1)
    yield from _clean_code(list(SCENARIOS)[:: 25 if quick else 1], 2 if quick else 10)


# Virtual seconds a second.


class Went(msgspec.Struct):
    """What one process has measured."""

    wall_s: float
    cpu_s: float


def _virtual_seconds(name: str, nodes: int, seconds: int, use: Use, goal: str) -> Figure:
    """Several at once, each in a process of its own, as long as there are cores."""
    jobs = cores()
    went = [
        msgspec.msgpack.decode(_known(sent), type=Went)
        for sent in run_in_forks([partial(_go, nodes, seconds, use)] * jobs, jobs)
    ]
    rate = sum(seconds / each.wall_s for each in went)
    cpu_us = sum(each.cpu_s for each in went) / (seconds * jobs) * 1e6
    return Figure(f"virtual seconds a second, {name}, {jobs} processes", rate, "s/s", cpu_us, goal)


def _go(nodes: int, seconds: int, use: Use) -> bytes:
    sim = Simulation(1)
    world = World(sim)
    sim.run(_boot(world, nodes, use), limit=timedelta(minutes=10))
    with Stopwatch() as watch:
        sim.run(tasks.sleep(timedelta(seconds=seconds)), limit=timedelta(hours=1))
    return msgspec.msgpack.encode(Went(watch.wall_s, watch.cpu_s))


async def _boot(world: World, nodes: int, use: Use) -> None:
    world.add_server("server-1")
    for number in range(nodes):
        world.add_node(f"node-{number}", PretendSettings())
    for name, run in (("scheduler-1", _schedule), ("controllers-1", _control)):
        world.add_program(name, partial(run, world, name))
    world.add_program(USER, partial(_use, world, use))
    await world.boot()
    await tasks.sleep(SETTLES_WITHIN)


async def _schedule(world: World, name: str, env: Env) -> None:
    async with world.client_for(name, env) as client:
        await Scheduler(client, env, instance=name).run()


async def _control(world: World, name: str, env: Env) -> None:
    async with world.client_for(name, env) as client:
        await Controllers(client, env, instance=name, controllers=CONTROLLERS, loops=LOOPS).run()


async def _use(world: World, use: Use, env: Env) -> None:
    async with world.client_for(USER, env) as client:
        await use(client)


async def _do_nothing(_: Client) -> None:
    await asyncio.Event().wait()


async def _scale(client: Client) -> None:
    labels = {"app": "web"}
    spec = {
        "replicas": 5,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": POD},
    }
    await client.create(DEPLOYMENTS, {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec})
    for turn in range(1_000_000):
        await tasks.sleep(SCALED_EVERY)
        await client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 5 + turn % 2}})


async def _churn(client: Client) -> None:
    for number in range(1_000_000):
        _ = tasks.spawn(_one_pod(client, f"pod-{number}"), name=f"pod {number}")
        await tasks.sleep(timedelta(seconds=1) / PODS_PER_S)


async def _one_pod(client: Client, name: str) -> None:
    pod: Object = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": POD}
    await client.create(PODS, pod)
    await tasks.sleep(POD_LASTS)
    await client.delete(PODS, name, NAMESPACE)


def _known(sent: bytes | LostFork) -> bytes:
    if isinstance(sent, LostFork):
        raise RuntimeError(f"a process has measured nothing: {sent.how}")
    return sent


# Fault runs.


def _fault_runs(world: str, runs: int, goal: str) -> Iterable[Figure]:
    jobs = cores()
    with Stopwatch(with_children=True) as watch:
        results = list(run_many(SCENARIOS[f"{world}-world"], range(1, runs + 1), jobs=jobs))
    name = f"fault runs, world {world}, 60 virtual s and healing, {jobs} processes"
    yield _per_minute(watch, name, len(results), goal)
    virtual_s = sum(result.virtual_s for result in results)
    yield Figure(f"the same, world {world}, virtual seconds a second", virtual_s / watch.wall_s, "s/s")
    yield _bad(f"the same, world {world}, runs that did not pass", results)


def _sweep(scenario: str, one_in: int) -> Iterable[Figure]:
    with Stopwatch(with_children=True) as watch:
        found = sweep(SCENARIOS[scenario], faults=EVERYWHERE, jobs=cores(), one_in=one_in)
    name = f"sweep of {scenario}, each single fault at {found.points} points"
    yield Figure(name, watch.wall_s, "s", watch.cpu_s / found.points * 1e6, goal="≤ 300")
    yield _bad("the same, points that are bad", [result for _, result in found.bad])


def _clean_code(scenarios: Sequence[str], seeds: int) -> Iterable[Figure]:
    results: list[RunResult] = []
    with Stopwatch(with_children=True) as watch:
        for scenario in scenarios:
            results += run_many(SCENARIOS[scenario], range(1, seeds + 1), jobs=cores(), strategy=STRATEGIES["mixed"])
    yield _per_minute(watch, f"clean code, {seeds} seeds of each of {len(scenarios)} scenarios", len(results))
    yield _bad("the same, runs that did not pass", results)


def _per_minute(watch: Stopwatch, name: str, runs: int, goal: str = "") -> Figure:
    rate = watch.rate(name, runs, unit="/min")
    return Figure(rate.name, rate.value * 60, rate.unit, rate.cpu_us, goal=goal)


def _bad(name: str, results: Sequence[RunResult]) -> Figure:
    bad = [result for result in results if not result.is_passed]
    for result in bad[:1]:
        print(f"{result.scenario}: seed {result.seed} is {result.verdict}: {result.problem}", file=sys.stderr)
    return Figure(name, len(bad), "", goal="≤ 0")


if __name__ == "__main__":
    main(measure)
