"""Decision records as they are really made, and as many of them as wanted.

The templates are the records of a simulated cluster in which a deployment is rolled out twice, scaled, and cannot be
placed for a while: of the scheduler, all controllers, the agents and the commit points, in the mix in which they come.
Each record that is wanted is a copy of one of them with an id, a time, an object, revisions and digests of its own, so
that what does not repeat itself in life does not repeat itself here, and compresses as badly.
"""

from collections.abc import Iterator
from datetime import timedelta
from random import Random
from typing import Any, Final

import msgspec

from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.env import tasks
from mainstay.journal.memory_journal import MemoryJournal
from mainstay.journal.record import DecisionRecord, WriteRecord
from mainstay.scenarios._workloads import a_workload
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation

APART_US: Final = 20_000
"""One decision every 20 ms: a million take five and a half hours."""
_replace = msgspec.structs.replace


def lived_journal(seed: int = 7) -> MemoryJournal:
    """The journal of a small simulated cluster with some trouble, at the end of which `stuck` cannot be placed."""

    async def live(sim: Simulation) -> MemoryJournal:
        nodes = {f"node-{zone}{number}": NodeOptions(zone=zone) for zone in "abc" for number in range(2)}
        async with whole_cluster(sim, nodes=nodes) as cluster:
            await cluster.client.create(DEPLOYMENTS, a_workload("web", 6))
            await tasks.sleep(timedelta(seconds=20))
            for number in range(2):
                change: dict[str, Any] = {"metadata": {"labels": {"round": str(number)}}}
                await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"template": change}})
                await tasks.sleep(timedelta(seconds=20))
            await cluster.client.patch(DEPLOYMENTS, "web", "default", {"spec": {"replicas": 12}})
            await tasks.sleep(timedelta(seconds=20))
            stuck = a_workload("stuck", 3)
            container = stuck["spec"]["template"]["spec"]["containers"][0]
            container["resources"] = {"requests": {"cpu": "100"}}
            await cluster.client.create(DEPLOYMENTS, stuck)
            await tasks.sleep(timedelta(seconds=30))
            return cluster.journal

    simulation = Simulation(seed=seed)
    return simulation.run(live(simulation), limit=timedelta(hours=1))


def copies(templates: list[DecisionRecord], count: int, objects: int, ends_at: int) -> Iterator[DecisionRecord]:
    """So many records, the last of them at a time. Their objects are `objects` many, and come in no order."""
    chance = Random(7)
    for number in range(count):
        template = templates[number % len(templates)]
        which = chance.randrange(objects)
        name, uid = f"{template.subject.name[:12]}-{which:06x}", _uid(chance)
        at, revision = ends_at - (count - number) * APART_US, 1_000 + number * 2
        subject = template.subject
        yield _replace(
            template,
            id=f"{template.component}-{uid}",
            at=at,
            now=at,
            subject=_replace(subject, namespace=f"team-{which % 50}" if subject.namespace else "", name=name, uid=uid),
            view=tuple([_replace(seen, revision=revision - place) for place, seen in enumerate(template.view)]),
            woken_by=tuple([revision - place for place, _ in enumerate(template.woken_by)]),
            queue_wait_us=chance.randrange(20_000),
            looked_at=tuple(
                [_replace(look, revision=revision - chance.randrange(5_000)) for look in template.looked_at]
            ),
            actions=tuple(
                [
                    _replace(each, name=name, digest=chance.randbytes(16) if each.digest else b"")
                    for each in template.actions
                ]
            ),
            writes=tuple(
                [
                    _replace(each, name=name, revision=revision + place if each.revision else 0)
                    for place, each in enumerate(template.writes)
                ]
            ),
        )


def write_of(record: DecisionRecord, chance: Random) -> WriteRecord | None:
    """Who asked for what a decision wrote, as the server notes it."""
    if not record.writes or not record.writes[0].revision:
        return None
    done = record.writes[0]
    return WriteRecord(
        done.revision,
        done.kind,
        done.namespace,
        done.name,
        record.at,
        "patch",
        f"system:mainstay:{record.component}",
        f"mainstay-{record.component}",
        record.component,
        _uid(chance),
        decision=record.id,
        subresource="status",
    )


def _uid(chance: Random) -> str:
    text = f"{chance.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
