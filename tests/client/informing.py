"""Informers that run, and what the tests of them have in common."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, PODS
from mainstay.client.indexes import NODE
from mainstay.client.informer import Informer
from mainstay.client.pump import Collection
from mainstay.env import tasks
from mainstay.sim.simulation import Simulation
from tests.client.follower import Follower
from tests.client.pretend_api import PretendApi
from tests.client.world import World
from tests.server.world import a_configmap

MINUTE = timedelta(minutes=1)


@asynccontextmanager
async def following(
    sim: Simulation, source: Any, kind: KindName = PODS, *, may_go_back: bool = False, **options: Any
) -> AsyncIterator[tuple[Informer, Follower]]:
    """An informer that runs, and a follower that believes it. In the end the follower must have heard no nonsense."""
    informer = Informer(source, sim.env("client"), Collection(kind), [NODE], **options)
    follower = Follower(informer, may_go_back=may_go_back)
    informer.start()
    try:
        async with tasks.timeout(MINUTE):
            await informer.synced()
        yield informer, follower
        assert follower.problems == []
    finally:
        await informer.stop()


async def a_while(seconds: float = 60) -> None:
    """Long enough for every backoff and repeat."""
    await asyncio.sleep(seconds)


async def bookmarks(api: PretendApi, count: int) -> None:
    """One each second."""
    for _ in range(count):
        api.bookmark()
        await asyncio.sleep(1)


def same_as_a_list(api: PretendApi, informer: Informer, follower: Follower) -> None:
    expected = api.state(api.revision)
    assert [entry.object() for entry in informer.cache.entries()] == list(expected.values())
    held = {entry.key: (entry.uid, entry.revision) for entry in informer.cache.entries()}
    assert follower.objects() == held


async def same_as_a_real_list(world: World, informer: Informer, follower: Follower) -> None:
    page = await world.client.list(informer.collection.kind)
    named = {"kind": informer.collection.kind.kind, "apiVersion": informer.collection.kind.group_version}
    assert [entry.object() for entry in informer.cache.entries()] == [{**named, **item} for item in page.items]
    assert follower.objects() == {entry.key: (entry.uid, entry.revision) for entry in informer.cache.entries()}


def a_stored_configmap(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": f"{name:-<36}"}, "data": {}}


async def make(world: World, *names: str) -> None:
    for name in names:
        await world.client.create(CONFIG_MAPS, a_configmap(name), "default")


# Following a real server.
