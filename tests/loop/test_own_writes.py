"""No decision before the caches show what the last one wrote."""

import asyncio
from datetime import timedelta

from mainstay.api.kind_names import CONFIG_MAPS, NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.env import tasks
from mainstay.loop.act import OwnWrite
from mainstay.loop.own_writes import OwnWrites

KEY = ObjectKey("default", "web")
POD = ObjectKey("default", "web-1")


def caches() -> tuple[Cache, Cache, OwnWrites]:
    pods, configmaps = Cache(PODS), Cache(CONFIG_MAPS)
    for cache in (pods, configmaps):
        cache.replace([], 5)
    return pods, configmaps, OwnWrites({PODS: pods, CONFIG_MAPS: configmaps})


def a_pod(cache: Cache, revision: int, uid: str = "u1"):
    version = f'"resourceVersion":"{revision}"'
    return cache.read(f'{{"metadata":{{"namespace":"default","name":"web-1","uid":"{uid}",{version}}}}}'.encode())


def test_a_key_that_wrote_nothing_waits_for_nothing():
    _, _, own = caches()
    assert own.is_seen(KEY)


def test_every_kind_that_was_written_has_to_catch_up():
    pods, configmaps, own = caches()
    own.wrote(KEY, OwnWrite(PODS, POD, revision=7))
    own.wrote(KEY, OwnWrite(CONFIG_MAPS, POD, revision=8))
    pods.reached(9)
    assert not own.is_seen(KEY)
    configmaps.reached(8)
    assert own.is_seen(KEY)
    assert len(own) == 0


def test_what_is_not_read_is_not_waited_for():
    _, _, own = caches()
    own.wrote(KEY, OwnWrite(NODES, ObjectKey("", "n1"), revision=99))
    assert own.is_seen(KEY)


def test_what_was_removed_has_to_be_gone_from_the_cache():
    pods, _, own = caches()
    pods.apply(a_pod(pods, 6))
    own.wrote(KEY, OwnWrite(PODS, POD, gone_uid="u1"))
    assert not own.is_seen(KEY)
    pods.apply(a_pod(pods, 7, uid="u2"))  # Another one of that name: the first is gone.
    assert own.is_seen(KEY)


def test_what_was_removed_and_is_back_since_the_store_was_put_back_is_not_waited_for():
    pods, _, own = caches()
    pods.apply(a_pod(pods, 6))
    own.wrote(KEY, OwnWrite(PODS, POD, gone_uid="u1"))

    pods.replace([a_pod(pods, 4)], 5, is_rewind=True)

    assert own.is_seen(KEY)


def test_a_doubt_is_over_when_the_server_has_said_how_far_it_is_and_the_cache_is_there():
    pods, _, own = caches()
    own.doubt(KEY, PODS)
    pods.reached(50)
    assert (own.is_seen(KEY), own.doubts(KEY)) == (False, [PODS])
    own.settle(KEY, PODS, 51)
    assert (own.is_seen(KEY), own.doubts(KEY)) == (False, [])
    pods.reached(51)
    assert own.is_seen(KEY)


async def test_waiting_ends_when_all_is_seen():
    pods, _, own = caches()
    pods.apply(a_pod(pods, 6))
    own.wrote(KEY, OwnWrite(PODS, ObjectKey("default", "web-2"), revision=8))
    own.wrote(KEY, OwnWrite(PODS, POD, gone_uid="u1"))
    waiting = asyncio.ensure_future(own.seen(KEY))
    for step in (lambda: pods.reached(8), lambda: pods.apply(a_pod(pods, 9), is_deleted=True)):
        await tasks.sleep(timedelta(seconds=1))
        assert not waiting.done()
        step()
    await waiting
    assert own.is_seen(KEY)
