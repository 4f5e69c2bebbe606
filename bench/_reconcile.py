"""What does the runtime add to a decision? A controller that only looks at its object, over a cache of pods."""

from collections.abc import Iterable
from datetime import timedelta

from bench.measure import Figure, Stopwatch
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.informer import Informers
from mainstay.env import Env, tasks
from mainstay.journal.record import DecisionRecord
from mainstay.loop.controller import Controller
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Decision
from mainstay.loop.kernel import LoopContext
from mainstay.loop.view import View


class Looking(Controller):
    name = "looking"

    def __init__(self, kind: KindName) -> None:
        self.kind = kind

    def decide(self, view: View, key: ObjectKey, memory: object) -> Decision:
        view.get(self.kind, key)
        return Decision()


async def measure_reconcile(client: Client, env: Env, kind: KindName, rounds: int) -> Iterable[Figure]:
    """Every object of a kind is decided about, so many times over. With the record of each decision."""
    informers = Informers(client, env)
    records: list[DecisionRecord] = []
    context = LoopContext(client, informers, env, recorder=records.append, build="bench")
    loop = ControllerLoop(Looking(kind), context)
    await informers.synced()
    running = tasks.spawn(loop.run(), name="looking")
    keys = informers.get(kind).cache.keys()
    await _decided(loop, len(keys))
    costs = []
    for number in range(1, rounds + 1):
        with Stopwatch() as watch:
            for key in keys:
                loop.queue.add(key, tenant=key.namespace, woken_by=number)
            await _decided(loop, len(keys) * (number + 1))
        costs.append(watch.cpu_s / len(keys) * 1e6)
        records.clear()
    await tasks.stop(running)
    await informers.stop()
    cost_us = sorted(costs)[len(costs) // 2]
    return [Figure("controller: a key looked at, decided and recorded", cost_us, "CPU µs", cost_us, "≤ 60")]


async def _decided(loop: ControllerLoop, count: int) -> None:
    while loop.kernel.counters.decisions < count:
        await tasks.sleep(timedelta(milliseconds=5))
