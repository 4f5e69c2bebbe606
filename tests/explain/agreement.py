"""Do decisions come out the same when they are made again from the journal? In simulated clusters, with faults.

    python -m tests.explain.agreement --decisions 20000

Each seed is a cluster with two servers, two schedulers that share their work or elect one of them, two processes of
controllers and six nodes; people do things to it at random (churn.py), while programs crash, networks are cut, answers
are lost and watches come late. Then every decision in its journal is made again: the views from the history of
revisions, the columns from the views. What comes out otherwise is a bug, and is shown.
"""

import argparse
import sys
import time
from datetime import timedelta
from typing import Final

from mainstay.api.kind_names import NAMESPACES
from mainstay.env import tasks
from mainstay.explain.replay import Summary, replay_all
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.registry import load_deciders
from mainstay.scheduler.component import SchedulerSettings
from mainstay.sim.cluster.cluster import whole_cluster
from mainstay.sim.faults.schedule import NAMES
from mainstay.sim.simulation import Simulation
from tests.explain.churn import NODE_WISHES, PERMISSIVE, SPACES, Churn

DECIDERS = load_deciders()

BETWEEN: Final = timedelta(seconds=1.2)
AT_WORK: Final = timedelta(minutes=2)
FAULTS: Final = tuple(name for name in NAMES if name != "history-lost")


async def churned(sim: Simulation, lasts: timedelta = AT_WORK) -> MemoryJournal:
    """The journal of a cluster in which much was wanted and much went wrong."""
    # Every other seed they do not elect one of them, and get in each other's way.
    shared = SchedulerSettings(lease_name="") if sim.seed % 2 else None
    async with whole_cluster(
        sim, nodes=NODE_WISHES, servers=2, schedulers=2, controllers=2, scheduler_settings=shared
    ) as cluster:
        await tasks.sleep(timedelta(seconds=5))
        await cluster.client.patch(NAMESPACES, SPACES[0], "", {"metadata": {"labels": PERMISSIVE}})
        for name in SPACES[1:]:
            await cluster.client.create(NAMESPACES, {"metadata": {"name": name, "labels": PERMISSIVE}})
        cluster.world.faults.start(FAULTS)
        churn = Churn(cluster.client, sim.clock, sim.seed)
        for _ in range(lasts // BETWEEN):
            await churn.step()
            await tasks.sleep(BETWEEN * churn.random.random() * 2)
        await cluster.world.heal()
        await tasks.sleep(timedelta(seconds=20))
        return cluster.journal


def journal_of(seed: int, lasts: timedelta = AT_WORK) -> MemoryJournal:
    with Simulation(seed) as sim:
        return sim.run(churned(sim, lasts), limit=timedelta(days=1))


async def agreed(journal: MemoryJournal, summary: Summary, limit: int | None = None) -> None:
    """Make all decisions of a journal again."""
    async for record, answer in replay_all(journal, journal.records()[:limit], DECIDERS):
        summary.add(record, answer)


def show(summary: Summary) -> None:
    components = sorted({*summary.same, *summary.differs, *(component for component, _ in summary.cannot)})
    print(f"{'component':<24}{'same':>8}{'differs':>9}   cannot be replayed")
    for component in components:
        cannot = ", ".join(f"{why} {count}" for (who, why), count in sorted(summary.cannot.items()) if who == component)
        print(f"{component:<24}{summary.same.get(component, 0):>8}{summary.differs.get(component, 0):>9}   {cannot}")
    not_replayed = sum(summary.cannot.values())
    print(
        f"{summary.replayed} decisions made again, {100 * summary.agreement:.3f} % the same, {not_replayed} cannot be"
    )
    for record, answer in summary.differences[:10]:
        print(f"\n{record.id} ({record.component}) about {record.subject.kind} {record.subject.name}: {answer.field}")
        print(f"  recorded: {answer.recorded[:2000]}\n  now:      {answer.now[:2000]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--decisions", type=int, default=20_000)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long each cluster runs, in virtual time")
    wanted = parser.parse_args()
    summary, seed, began = Summary(), wanted.first_seed, time.monotonic()
    while summary.replayed < wanted.decisions:
        journal = journal_of(seed, timedelta(minutes=wanted.minutes))
        with Simulation(seed) as sim:
            sim.run(agreed(journal, summary))
        took = time.monotonic() - began
        print(
            f"seed {seed}: {summary.replayed} made again, {len(summary.differences)} differ, {took:.0f} s", flush=True
        )
        seed += 1
    show(summary)
    return 1 if summary.differences else 0


if __name__ == "__main__":
    sys.exit(main())
