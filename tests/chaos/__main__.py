"""Chaos for as long as one likes: random kills on a real cluster, and the promises checked again and again.

    python -m tests.chaos --minutes 10 --seed 7

The seed says what is killed in which order; when exactly things happen is up to the machine. If a promise is broken,
the cluster's directory stays, with its store, its journal and all logs, the history of kills is printed, and
chaos-failures/ has an incident bundle of the run, which `mainstay replay` opens.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections.abc import Sequence

from tests.chaos.cluster import Cluster, CommandFailed, a_web_pod, an_exclusive_pod, processes_of
from tests.chaos.incident import describe_bundle
from tests.chaos.promises import Writer, lost

WEB = tuple(f"web-{number}" for number in range(4))
ONLY = tuple(f"only-{number}" for number in range(4))
KILLS_A_ROUND = 6
SETTLE_WITHIN_S = 120


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Random kills on a real cluster.")
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    until = time.monotonic() + options.minutes * 60
    history: list[str] = []
    cluster = Cluster(nodes=3)
    with cluster:
        cluster.apply(*(a_web_pod(name) for name in WEB), *(an_exclusive_pod(name, cluster) for name in ONLY))
        cluster.until_ready(*WEB, *ONLY)
        try:
            while time.monotonic() < until:
                _round(cluster, chance, history)
                print(f"{len(history)} kills, no promise broken", flush=True)
        except (AssertionError, CommandFailed) as error:
            cluster.keep()
            print(f"broken after {len(history)} kills, seed {options.seed}: {error}")
            print("\n".join(history[-3 * KILLS_A_ROUND :]))
            print(f"the cluster is left in {cluster.directory}")
            print(describe_bundle(cluster, f"chaos-seed-{options.seed}"))
            return 1
    return 0


def _round(cluster: Cluster, chance: random.Random, history: list[str]) -> None:
    """Some kills, while a client writes; then all has to be as it was, and nothing lost."""
    writer = Writer(cluster.kubeconfig, f"round-{len(history)}")
    writer.start()
    try:
        for _ in range(KILLS_A_ROUND):
            history.append(_kill_something(cluster, chance))
            time.sleep(chance.uniform(0, 1.5))
        cluster.up()  # If the supervisor was among them.
        cluster.until_ready(*WEB, *ONLY, within_s=SETTLE_WITHIN_S)
        cluster.until(lambda: len(cluster.ready_nodes()) == 3)
    finally:
        writer.stop()
    present = {name.removeprefix("configmap/") for name in cluster.kubectl("get", "configmaps", "-o", "name").split()}
    missing = lost(writer, present)
    if missing:
        raise AssertionError(f"acknowledged and lost: {missing}")
    if cluster.violations():
        raise AssertionError(f"two at a time: {cluster.violations()}")
    for name in ONLY:
        count = len(processes_of("exclusive.py", name))
        if count != 1:
            raise AssertionError(f"{count} processes of {name}")


def _kill_something(cluster: Cluster, chance: random.Random) -> str:
    components = cluster.recorded()
    victim = chance.choice([*sorted(components), *WEB, *ONLY])
    if victim in components:
        pids = [components[victim]]
    else:
        pids = processes_of("web.py" if victim in WEB else "exclusive.py", victim)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # It has just ended, because of what was killed before.
    return f"{time.strftime('%H:%M:%S')} killed {victim}: {pids}"


if __name__ == "__main__":
    sys.exit(main())
