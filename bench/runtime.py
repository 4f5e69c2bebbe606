"""How fast does a cache take changes in, how much memory do fifty thousand pods need, and what does the runtime add?

An informer with the indexes that are usual (namespace, node, owner, one label) and a subscriber follows a watch over a
real connection on this machine, through the client and its HTTP. Only this process is counted, not the one that sends;
the rate is that of one core. Each event changes the status of one pod of about 2.5 KB. The seed of what is sent is 7.
"""

import gc
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from bench._queue import measure_queue
from bench._reconcile import measure_reconcile
from bench.measure import Figure, Stopwatch, main
from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.entry import Change
from mainstay.client.indexes import NAMESPACE, NODE, OWNER, label
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks

SEED: Final = 7
RECONCILED_PODS: Final = 5_000
INDEXES: Final = (NAMESPACE, NODE, OWNER, label("app"))
_PAGES_OF_MB: Final = 1000 * 1000 / 4096


def measure(quick: bool) -> Iterable[Figure]:
    # First, while the process is fresh: memory that others had let go of would be filled again and not be counted.
    pods, changes = (5_000, 20_000) if quick else (50_000, 200_000)
    with _feed(pods, changes) as (port, go):
        yield from tasks.run(_follow(port, go, pods, changes))
    yield from measure_queue(quick)
    with _feed(RECONCILED_PODS, 0) as (port, _):
        yield from tasks.run(_reconcile(port, 3 if quick else 9))


async def _reconcile(port: int, rounds: int) -> Iterable[Figure]:
    env = _env()
    async with Client(Config((f"http://127.0.0.1:{port}",)), env) as client:
        return await measure_reconcile(client, env, PODS, rounds)


def _env() -> Env:
    return Env(SystemClock(), Chance(b"bench"), SystemDisk(Path(".")))


@contextmanager
def _feed(pods: int, changes: int) -> Iterator[tuple[int, IO[str]]]:
    """A process that sends a watch: its port, and where to tell it to go on."""
    command = [sys.executable, "-m", "bench._watch_feed", str(pods), str(changes), str(SEED)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.stdin
        finally:
            process.kill()


async def _follow(port: int, go: IO[str], pods: int, changes: int) -> list[Figure]:
    env = _env()
    count = [0]

    def told(change: Change) -> None:
        count[0] += 1

    gc.collect()
    before = _memory_mb()
    async with Client(Config((f"http://127.0.0.1:{port}",)), env) as client:
        informer = Informer(client, env, Collection(PODS), INDEXES)
        informer.subscribe(told)
        with Stopwatch() as filling:
            informer.start()
            await informer.synced()
        gc.collect()
        memory_mb = _memory_mb() - before
        json_mb = sum(len(entry.raw) for entry in informer.cache.entries()) / 1e6
        go.write("go\n")
        go.flush()
        with Stopwatch() as applying:
            await informer.cache.wait_until(pods + changes + 1)
        await informer.stop()
    if (len(informer.cache), count[0]) != (pods, pods + changes):
        raise AssertionError(f"{len(informer.cache)} pods, and {count[0]} changes told")
    applied_us, filled_us = applying.cpu_s / changes * 1e6, filling.cpu_s / pods * 1e6
    return [
        Figure("informer: changes applied, of one core", 1e6 / applied_us, "/s", applied_us, "≥ 60000"),
        Figure("informer: filled from nothing, of one core", 1e6 / filled_us, "pods/s", filled_us),
        Figure(
            f"informer: memory of {pods:,} pods with 4 indexes", memory_mb, "MB", goal="≤ 250" if pods == 50_000 else ""
        ),
        Figure("informer: of that, JSON", json_mb, "MB"),
    ]


def _memory_mb() -> float:
    """What is resident of this process, in millions of bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) / _PAGES_OF_MB


if __name__ == "__main__":
    main(measure)
