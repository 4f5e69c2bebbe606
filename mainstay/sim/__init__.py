"""Runs Mainstay, or any asyncio program, in virtual time with seeded chance: the same seed gives the same run.

    from mainstay.sim import whole_cluster

    async def test_a_website_survives_a_crash(sim):         the fixture is the pytest plugin's
        async with whole_cluster(sim) as world:
            world.run(Websites())
            ...

These are the names that tests of one's own are written with (docs/guides/worst-day.md); simulation.py is where the
inside begins. Each is imported when it is first used: the pytest plugin must stay cheap for those who do not use it.
What has a module of its own name is there: `mainstay.sim.run.run`, `mainstay.sim.run.sweep`, `mainstay.sim.sieve`.
"""

import pkgutil
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mainstay.sim.checkers import Checker as Checker
    from mainstay.sim.checkers import Violated as Violated
    from mainstay.sim.cluster.cluster import Cluster as Cluster
    from mainstay.sim.cluster.cluster import NodeOptions as NodeOptions
    from mainstay.sim.cluster.cluster import bare_cluster as bare_cluster
    from mainstay.sim.cluster.cluster import usual_checkers as usual_checkers
    from mainstay.sim.cluster.cluster import whole_cluster as whole_cluster
    from mainstay.sim.cluster.world import World as World
    from mainstay.sim.run.bundle import RunBundle as RunBundle
    from mainstay.sim.run.choices import Tape as Tape
    from mainstay.sim.run.determinism_guard import DeterminismGuard as DeterminismGuard
    from mainstay.sim.run.forks import run_many as run_many
    from mainstay.sim.run.run import RunResult as RunResult
    from mainstay.sim.run.run import RunVerdict as RunVerdict
    from mainstay.sim.run.scenario import Scenario as Scenario
    from mainstay.sim.run.scenario import Stage as Stage
    from mainstay.sim.simulation import Simulation as Simulation
    from mainstay.sim.testing.stage import OwnStage as OwnStage
    from mainstay.sim.testing.survival import assert_survives as assert_survives
    from mainstay.sim.testing.trouble import all_but as all_but
    from mainstay.sim.testing.trouble import every as every
    from mainstay.sim.testing.trouble import only as only

_HOME: Final = {
    "Checker": "checkers",
    "Cluster": "cluster.cluster",
    "DeterminismGuard": "run.determinism_guard",
    "NodeOptions": "cluster.cluster",
    "OwnStage": "testing.stage",
    "RunBundle": "run.bundle",
    "RunResult": "run.run",
    "Scenario": "run.scenario",
    "Simulation": "simulation",
    "Stage": "run.scenario",
    "Tape": "run.choices",
    "RunVerdict": "run.run",
    "Violated": "checkers",
    "World": "cluster.world",
    "all_but": "testing.trouble",
    "assert_survives": "testing.survival",
    "bare_cluster": "cluster.cluster",
    "every": "testing.trouble",
    "only": "testing.trouble",
    "run_many": "run.forks",
    "usual_checkers": "cluster.cluster",
    "whole_cluster": "cluster.cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return pkgutil.resolve_name(f"{__name__}.{_HOME[name]}:{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
