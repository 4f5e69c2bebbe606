"""Who is told how far the store has come, and when; and who is told of which change."""

import asyncio
from typing import Any

import pytest

from mainstay.server.storage.stored import stored
from mainstay.server.watch import session
from mainstay.server.watch.feed import Only, Window
from mainstay.server.watch.heartbeats import is_heartbeat
from mainstay.store.interface import Entry, KeyChange
from tests.server.world import CONFIGMAPS, PODS, Client, a_configmap, a_pod, a_server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
WATCH = "watch=1&allowWatchBookmarks=true"


def a_lease(holder: str = "a", renewed_s: int = 0) -> dict[str, Any]:
    time = f"2030-01-01T00:00:{renewed_s:02}.000000Z"
    return {"metadata": {"name": "one", "uid": "u"}, "spec": {"holderIdentity": holder, "renewTime": time}}


def a_change(before: dict[str, Any] | None, after: dict[str, Any] | None, kind: str = "leases") -> KeyChange:
    key = f"coordination.k8s.io/{kind}/default/one"
    old = None if before is None else Entry(key, stored(before), 1, 1, 1)
    return KeyChange(2, key, None if after is None else Entry(key, stored(after), 1, 2, 2), old)


async def renew(client: Client, renewed_s: int, holder: str = "a") -> None:
    await client.patch(f"{LEASES}/one", {"spec": a_lease(holder, renewed_s)["spec"]})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (a_change(a_lease(), a_lease(renewed_s=5)), True),
        (a_change(a_lease(), a_lease("b", 5)), False),
        (a_change(None, a_lease()), False),
        (a_change(a_lease(), None), False),
        (a_change(a_lease(), a_lease(renewed_s=5), kind="others"), False),
    ],
)
def test_a_lease_that_is_only_renewed_is_a_heartbeat(change: KeyChange, expected: bool):
    assert is_heartbeat(change) is expected


async def test_heartbeats_are_no_news_to_those_who_watch_other_kinds(sim):
    async with a_server(sim) as client:
        await client.create(LEASES, a_lease())
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        async with client.watch(f"{CONFIGMAPS}?{WATCH}&resourceVersion={version}") as events:
            for renewed_s in range(1, 6):
                await asyncio.sleep(1)
                await renew(client, renewed_s)
            asked_at = asyncio.get_running_loop().time()

            bookmark = await events.next(within=10)

            assert asyncio.get_running_loop().time() - asked_at > 2
            assert int(bookmark["object"]["metadata"]["resourceVersion"]) == int(version) + 5


@pytest.mark.parametrize("news", ["another holder", "another kind", "a list"])
async def test_all_who_watch_soon_hear_of_news(sim, news: str):
    async with a_server(sim) as client:
        await client.create(LEASES, a_lease())
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        async with client.watch(f"{CONFIGMAPS}?{WATCH}&resourceVersion={version}") as events:
            await renew(client, 1)
            match news:
                case "another holder":
                    await renew(client, 2, holder="b")
                case "another kind":
                    await client.create(PODS, a_pod("other"))
                case _:
                    await client.get(PODS)  # A client that has listed may wait until its watch has come as far.

            bookmark = await events.next(within=1.5)

            assert bookmark["type"] == "BOOKMARK"
            assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_those_who_watch_leases_hear_every_second_that_none_is_missing(sim):
    async with a_server(sim) as client:
        await client.create(LEASES, a_lease())
        version = (await client.get(LEASES))["metadata"]["resourceVersion"]
        path = "/apis/coordination.k8s.io/v1/namespaces/quiet/leases"
        async with client.watch(f"{path}?{WATCH}&resourceVersion={version}") as events:
            await renew(client, 1)

            assert (await events.next(within=1.5))["type"] == "BOOKMARK"


async def test_a_watch_that_is_far_behind_gets_no_bookmark_before_it_has_caught_up(sim, monkeypatch):
    monkeypatch.setattr(session, "AT_ONCE_CHANGES", 5)
    monkeypatch.setattr(session, "PIECE_BYTES", 64 * 1024)
    async with a_server(sim) as client:
        version = (await client.create(CONFIGMAPS, a_configmap("one")))["metadata"]["resourceVersion"]
        revisions = []
        for number in range(40):
            patched = await client.patch(f"{CONFIGMAPS}/one", {"data": {"n": f"{number:060000}"}})
            revisions.append(patched["metadata"]["resourceVersion"])
        async with client.watch(f"{CONFIGMAPS}?{WATCH}&resourceVersion={version}") as events:
            await asyncio.sleep(5)  # The client reads nothing: the server waits for it, and its clock ticks.
            seen = [*await events.take(40), await events.next(within=15)]

        assert [(each["type"], each["object"]["metadata"]["resourceVersion"]) for each in seen] == [
            *(("MODIFIED", revision) for revision in revisions),
            ("BOOKMARK", revisions[-1]),
        ]


class Ear:
    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def tell(self, data: bytes) -> None:
        self.heard.append(data)

    def end(self, reason: bytes) -> None: ...

    def lost(self) -> None: ...

    def fail(self, change: KeyChange) -> None: ...


def test_a_change_is_told_where_it_was_where_it_is_and_to_those_who_want_everything():
    window = Window(0)
    ears = {value: Ear() for value in ("a", "b", "c", "")}
    for value, ear in ears.items():
        only = Only("letter", value, lambda entry: entry.value.decode()) if value else None
        window.join(value, lambda change: b"%d" % change.revision, ear, None, only)

    window.add([KeyChange(7, "k", Entry("k", b"b", 1, 7, 2), Entry("k", b"a", 1, 1, 1))])
    window.leave("a", ears["a"])
    window.add([KeyChange(8, "k", None, Entry("k", b"a", 1, 7, 2)), KeyChange(9, "l", Entry("l", b"c", 9, 9, 1), None)])

    assert {value: ear.heard for value, ear in ears.items()} == {
        "a": [b"7"],
        "b": [b"7"],
        "c": [b"9"],
        "": [b"7", b"89"],
    }


async def test_a_watch_of_one_node_hears_when_a_pod_comes_and_goes(sim):
    async with a_server(sim) as client:
        version = (await client.get(PODS))["metadata"]["resourceVersion"]
        path = f"{PODS}?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3Dn1"
        async with client.watch(path) as events:
            await client.create(PODS, a_pod("elsewhere", nodeName="n2"))
            await client.create(PODS, a_pod("here", nodeName="n1"))
            await client.delete(f"{PODS}/here?gracePeriodSeconds=0")

            seen = await events.take(2)

        assert [(each["type"], each["object"]["metadata"]["name"]) for each in seen] == [
            ("ADDED", "here"),
            ("DELETED", "here"),
        ]
