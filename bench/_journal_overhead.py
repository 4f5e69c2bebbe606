"""What the journal costs a cluster: the same pods are bound with and without it, in turns, on real processes.

A round is a fresh server with its durable store and TLS, nodes and pods in it, and then a scheduler that binds them
all. With the journal the server records the history, who wrote what, and what the scheduler sends it; without, both are
started with `--no-journal`. Rounds alternate, and the other one begins each time, so that a machine that gets busier or
warmer counts against both. What is given is the median of the pairs: each round with the journal against its neighbour
without.

Of a busy machine the wall time says little. The CPU time for each binding is given as well, of the server and of the
scheduler: where they have a core each, the dearer of the two limits the rate. The process that closes segments of the
journal beside the server (env/helper.py) takes what others leave, and is in the wall time only.
"""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench._api_server import ApiServer
from bench._scheduler_cluster import CostOfBinding, SchedulerProcess, cost_of_binding, fill
from bench.measure import Figure
from mainstay.env import tasks

NODES: Final = 1_000
_SETTLE_S: Final = 1.0  # What was decided last is on its way for a moment longer, and counts as well.


def measure(quick: bool) -> Iterator[Figure]:
    pods, count = (1_000, 1) if quick else (10_000, 5)
    pairs: list[tuple[CostOfBinding, CostOfBinding]] = []
    for number in range(count):
        first = _round(pods, has_journal=number % 2 == 0)
        second = _round(pods, has_journal=number % 2 == 1)
        pairs.append((first, second) if number % 2 == 0 else (second, first))
    name = f"journal on and off, {pods:,} pods on {NODES:,} nodes"
    yield Figure(f"{name}: bound with", statistics.median(on.per_s for on, _ in pairs), "/s")
    yield Figure(f"{name}: bound without", statistics.median(off.per_s for _, off in pairs), "/s")
    slower = statistics.median((1 - on.per_s / off.per_s) * 100 for on, off in pairs)
    yield Figure(f"{name}: slower by", slower, "%", None, "≤ 5")
    yield _dearer(f"{name}: more CPU of the server for each", [(on.server_us, off.server_us) for on, off in pairs])
    yield _dearer(
        f"{name}: more CPU of the scheduler for each", [(on.scheduler_us, off.scheduler_us) for on, off in pairs]
    )


def _dearer(name: str, pairs: Sequence[tuple[float, float]]) -> Figure:
    dearer = statistics.median((on / off - 1) * 100 for on, off in pairs)
    return Figure(name, dearer, "%", statistics.median(on for on, _ in pairs))


def _round(pods: int, *, has_journal: bool) -> CostOfBinding:
    options = () if has_journal else ("--no-journal",)
    with TemporaryDirectory(dir=".", prefix=".bench-") as text:
        directory = Path(text).absolute()
        with ApiServer(directory / "server", *options) as server:
            tasks.run(fill(server, directory, NODES, pods))
            with SchedulerProcess(server.kubeconfig, directory / "scheduler", *options) as scheduler:
                return cost_of_binding(server, scheduler, pods, settle_s=_SETTLE_S)
