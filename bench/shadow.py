"""What does deciding in shadow cost, by how many decisions are sampled?

The same pods are placed on the same 5,000 nodes: each decision goes from the pod as an object to the node that it is
assumed to be on, as in bench.scheduler, with a placement policy that applies and another one in shadow: with none, for
1 % of the decisions, and for all. The three take turns, several times, and the median counts: what matters is the
difference, and other programs on the machine change with time. Counted is the CPU time of one core.
"""

import gc
import statistics
from collections.abc import Iterable
from typing import Any, Final

from bench.measure import Figure, Stopwatch, main
from bench.scheduler import SEED, cluster, plain
from mainstay.env import SystemClock
from mainstay.loop.record import Origin
from mainstay.scheduler.active_policies import ActivePolicies, build_policies
from mainstay.scheduler.cache.vectors import Vectors
from mainstay.scheduler.counts import SchedulerCounts
from mainstay.scheduler.decide import decide
from mainstay.scheduler.pod_class import pod_to_place
from mainstay.scheduler.reasons import Placed
from mainstay.scheduler.record import Deciding, Setting
from mainstay.scheduler.shadow import ShadowDecider

NODES: Final = 5_000
PERCENTS: Final = (0, 1, 100)


def measure(quick: bool) -> Iterable[Figure]:
    pods, rounds = (1_000, 3) if quick else (10_000, 7)
    found: dict[int, list[float]] = {percent: [] for percent in PERCENTS}
    for _ in range(rounds):
        for percent in PERCENTS:
            found[percent].append(_cost(percent, pods))
    without = statistics.median(found[0])
    yield Figure("shadow: deciding for one pod, no policy in shadow", without, "CPU µs", without)
    for percent, goal in ((1, "≤ 5"), (100, "≤ 25")):
        cost = statistics.median(found[percent])
        yield Figure(f"shadow: {percent} % of the decisions: more for each", cost - without, "CPU µs", cost, goal)


def _cost(percent: int, count: int) -> float:
    """Of one decision, in microseconds."""
    columns, counts, policies = cluster(NODES), SchedulerCounts(), _policies(percent)
    vectors = Vectors(columns)
    shadow = ShadowDecider(SystemClock(), vectors, counts, SEED)
    pods = [plain(number) for number in range(count)]
    setting = Setting(Origin("bench"), 0, (), SEED)
    warm = pod_to_place(plain(count))
    known = [*(chosen for _, chosen in policies.scoped), *(each.chosen for each in policies.shadowed)]
    for each in known:  # The vectors of a class are made once for each policy.
        decide(vectors, warm, each.policy, SEED)
    gc.collect()
    gc.freeze()
    with Stopwatch() as watch:
        for number, pod in enumerate(pods):
            placing = pod_to_place(pod)
            chosen = policies.choose(placing)
            deciding = Deciding(
                setting, f"bench.{number}", number, placing.namespace, placing.name, placing.uid, 1, 1, 0, (), 0, ()
            )
            candidates = shadow.decide(policies, placing, chosen, deciding) if policies.shadowed else ()
            decision = decide(vectors, placing, chosen.policy, SEED)
            if candidates:
                shadow.compare(candidates, decision, deciding)
            if not isinstance(decision, Placed):
                raise AssertionError(f"{decision}")
            columns.assume(placing, decision.node)
    gc.unfreeze()
    if counts.shadowing.count < count * percent / 300:
        raise AssertionError(f"only {counts.shadowing.count} of {count} decisions were made in shadow")
    return watch.cpu_s / count * 1e6


def _policies(percent: int) -> ActivePolicies:
    candidate: dict[str, Any] = {"scores": {"MostAllocated": 5}, "active": False}
    if percent:
        candidate["shadow"] = {"percent": percent}
    return build_policies([_policy("v1", {"active": True}), _policy("v2", candidate)])


def _policy(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": {"scope": {}, **spec}}


if __name__ == "__main__":
    main(measure)
