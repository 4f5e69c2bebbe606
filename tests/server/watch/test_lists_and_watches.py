"""Lists and watches through the API."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainstay.env import Chance, tasks
from mainstay.server.storage.stored import stored
from mainstay.server.watch import feed
from mainstay.store.etcd import EtcdStore
from mainstay.store.interface import Put
from tests.server.world import CONFIGMAPS, PODS, Client, a_configmap, a_pod, a_server
from tests.store.fake_etcd import FakeEtcd


def names(answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer["items"]]


async def make(client: Client, count: int) -> None:
    for number in range(count):
        await client.create(CONFIGMAPS, a_configmap(f"c{number}", {"i": str(number)}, k=str(number)))


async def test_a_list_has_its_version_and_items_without_kinds(sim):
    async with a_server(sim) as client:
        await make(client, 2)

        listed = await client.get(CONFIGMAPS)

        assert (listed["kind"], names(listed)) == ("ConfigMapList", ["c0", "c1"])
        assert "kind" not in listed["items"][0]
        assert int(listed["metadata"]["resourceVersion"]) >= int(listed["items"][1]["metadata"]["resourceVersion"])


async def test_pages_show_one_snapshot(sim):
    async with a_server(sim) as client:
        await make(client, 5)

        first = await client.get(f"{CONFIGMAPS}?limit=2")
        await client.delete(f"{CONFIGMAPS}/c3")
        second = await client.get(f"{CONFIGMAPS}?limit=2&continue={first['metadata']['continue']}")
        third = await client.get(f"{CONFIGMAPS}?limit=2&continue={second['metadata']['continue']}")

        assert names(first) + names(second) + names(third) == ["c0", "c1", "c2", "c3", "c4"]
        assert first["metadata"]["remainingItemCount"] == 3
        assert len({page["metadata"]["resourceVersion"] for page in (first, second, third)}) == 1
        assert "continue" not in third["metadata"]


async def test_pages_of_a_selection_count_what_is_selected(sim):
    async with a_server(sim) as client:
        await make(client, 9)

        first = await client.get(f"{CONFIGMAPS}?limit=2&labelSelector=i+in+(1,3,5,7)")
        second = await client.get(
            f"{CONFIGMAPS}?limit=2&labelSelector=i+in+(1,3,5,7)&continue={first['metadata']['continue']}"
        )

        assert (names(first), names(second)) == (["c1", "c3"], ["c5", "c7"])


async def test_an_old_version_can_be_listed_exactly(sim):
    async with a_server(sim) as client:
        await make(client, 2)
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        await client.delete(f"{CONFIGMAPS}/c0")

        old = await client.get(f"{CONFIGMAPS}?resourceVersion={version}&resourceVersionMatch=Exact")

        assert (names(old), old["metadata"]["resourceVersion"]) == (["c0", "c1"], version)


async def test_a_version_that_has_not_happened_is_waited_for_a_little(sim):
    async with a_server(sim) as client:
        started = sim.loop.time()

        answer = await client.ask("GET", f"{CONFIGMAPS}?resourceVersion=9999")

        assert (answer.status, answer.body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
        assert answer.headers["Retry-After"] == "1"
        assert sim.loop.time() - started == pytest.approx(3, abs=0.1)


async def test_pods_can_be_selected_by_the_node_they_are_on(sim):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("a", nodeName="n1"))
        await client.create(PODS, a_pod("b"))

        assert names(await client.get(f"{PODS}?fieldSelector=spec.nodeName%3Dn1")) == ["a"]
        assert names(await client.get(f"{PODS}?fieldSelector=spec.nodeName%3D")) == ["b"]
        answer = await client.ask("GET", f"{PODS}?fieldSelector=spec.colour%3Dred")
        assert (answer.status, answer.body["message"]) == (400, "field label not supported: spec.colour")


async def test_a_watch_sees_every_change_of_many_writers_once_and_in_order(sim):
    async with a_server(sim) as client:
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]

        async def write(who: int) -> None:
            await client.create(CONFIGMAPS, a_configmap(f"w{who}", n="0"))
            for number in range(1, 5):
                await client.patch(f"{CONFIGMAPS}/w{who}", {"data": {"n": str(number)}})
            await client.delete(f"{CONFIGMAPS}/w{who}")

        async with client.watch(f"{CONFIGMAPS}?watch=true&resourceVersion={version}") as events:
            writing = asyncio.gather(*(write(who) for who in range(8)))
            seen = await events.take(8 * 6)
            await writing

        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
        assert versions == sorted(set(versions))
        for who in range(8):
            mine = [event for event in seen if event["object"]["metadata"]["name"] == f"w{who}"]
            assert [event["type"] for event in mine] == ["ADDED", *["MODIFIED"] * 4, "DELETED"]
            assert [event["object"]["data"]["n"] for event in mine] == ["0", "1", "2", "3", "4", "4"]


async def test_a_watch_without_a_version_begins_with_what_is_there(sim):
    async with a_server(sim) as client:
        await make(client, 2)
        async with client.watch(f"{CONFIGMAPS}?watch=1") as events:
            await client.create(CONFIGMAPS, a_configmap("new"))

            seen = await events.take(3)

        assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [
            ("ADDED", "c0"),
            ("ADDED", "c1"),
            ("ADDED", "new"),
        ]


async def test_a_streaming_list_says_where_the_state_ends(sim):
    async with a_server(sim) as client:
        await make(client, 1)
        asked = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with client.watch(f"{CONFIGMAPS}?{asked}") as events:
            first, end = await events.take(2)

        assert (first["type"], end["type"]) == ("ADDED", "BOOKMARK")
        assert end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"


async def test_bookmarks_tell_an_idle_watch_how_far_it_is(sim):
    async with a_server(sim) as client:
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}&allowWatchBookmarks=true") as events:
            await client.create(PODS, a_pod("other"))
            latest = (await client.get(PODS))["metadata"]["resourceVersion"]

            first = await events.next()
            await client.create(PODS, a_pod("another"))
            second = await events.next()

        assert (first["type"], first["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", latest)
        # The first one has said besides which store this is (tests/server/storage/test_epochs.py).
        assert second["object"] == {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(int(latest) + 1)},
        }


async def test_an_object_that_begins_or_ceases_to_match_is_added_or_deleted(sim):
    async with a_server(sim) as client:
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}&labelSelector=on%3Dyes") as events:
            await client.create(CONFIGMAPS, a_configmap("one", {"on": "no"}))
            await client.patch(f"{CONFIGMAPS}/one", {"metadata": {"labels": {"on": "yes"}}})
            await client.patch(f"{CONFIGMAPS}/one", {"data": {"k": "v"}})
            last = await client.patch(f"{CONFIGMAPS}/one", {"metadata": {"labels": {"on": "no"}}})

            seen = await events.take(3)

        assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
        gone = seen[2]["object"]["metadata"]
        assert (gone["labels"], gone["resourceVersion"]) == ({"on": "yes"}, last["metadata"]["resourceVersion"])


async def test_a_watch_from_before_the_window_is_told_to_list_again(sim, monkeypatch):
    monkeypatch.setattr(feed, "WINDOW_CHANGES_MAX", 3)
    async with a_server(sim) as client:
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        await make(client, 5)
        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version}") as events:
            error = await events.next()
            assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert await events.next() is None


async def test_a_watch_from_a_revision_that_the_store_has_never_had_is_told_to_list_again(sim):
    # The store was put back to a backup. (Of what a server has only not heard of yet, the scenario back-in-time tells.)
    async with a_server(sim) as client:
        version = int((await client.get(CONFIGMAPS))["metadata"]["resourceVersion"])
        async with client.watch(f"{CONFIGMAPS}?watch=1&resourceVersion={version + 2}") as events:
            error = await events.next()
            assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
            assert error["object"]["message"] == f"too large resource version: {version + 2}"
            assert await events.next() is None


async def test_a_watch_ends_when_its_time_is_over(sim):
    async with a_server(sim) as client, client.watch(f"{CONFIGMAPS}?watch=1&timeoutSeconds=40") as events:
        started = sim.loop.time()
        assert await events.next(within=60) is None
        assert sim.loop.time() - started == pytest.approx(40, abs=1)


async def test_a_client_that_does_not_read_is_cut_off_and_disturbs_no_other(sim):
    async with a_server(sim) as client:
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={version}"
        async with client.watch(path) as lazy, client.watch(path) as keen:
            body = a_configmap("big", blob="x" * 500_000)
            await client.create(CONFIGMAPS, body)
            for number in range(40):
                await client.patch(f"{CONFIGMAPS}/big", {"data": {"n": str(number)}})
                await keen.next()
            await keen.next()
            delivered = 0
            with pytest.raises(Exception, match=r"(?i)payload|closed|reset"):
                while await lazy.next() is not None:
                    delivered += 1
            assert delivered < 41


async def test_a_table_has_a_row_for_each_object_and_its_age(sim):
    async with a_server(sim) as client:
        await make(client, 2)
        await asyncio.sleep(300)

        table = await client.get(CONFIGMAPS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")

        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert [row["cells"] for row in table["rows"]] == [["c0", 1, "5m"], ["c1", 1, "5m"]]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(("phase", "is_over"), [("Running", False), ("Succeeded", True)])
async def test_a_row_says_when_a_pod_is_over(sim, phase: str, is_over: bool):
    async with a_server(sim) as client:
        await client.create(PODS, a_pod("p"))
        await client.patch(f"{PODS}/p/status", {"status": {"phase": phase}})

        row = (await client.get(PODS, Accept="application/json;as=Table;v=v1;g=meta.k8s.io"))["rows"][0]

        assert [each["type"] for each in row.get("conditions", [])] == (["Completed"] if is_over else [])


async def test_a_watch_over_a_websocket_has_one_message_for_each_event(sim):
    async with a_server(sim) as client:
        await make(client, 1)
        headers = {"Authorization": "Bearer admintoken"}
        async with client.session.ws_connect(f"{client.base}{CONFIGMAPS}?watch=1", headers=headers) as socket:
            first = await socket.receive_json()
            await client.delete(f"{CONFIGMAPS}/c0")
            second = await socket.receive_json()

        assert [event["type"] for event in (first, second)] == ["ADDED", "DELETED"]


async def test_two_servers_on_one_etcd_tell_their_watchers_the_same(sim):
    etcd = FakeEtcd()
    stores = [EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(2)]
    async with a_server(sim, "one", stores[0]) as one, a_server(sim, "two", stores[1]) as two:
        version = (await one.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={version}"
        async with one.watch(path) as here, two.watch(path) as there:
            await asyncio.gather(
                *(client.create(CONFIGMAPS, a_configmap(f"{number}-{which}"))
                  for which, client in enumerate((one, two)) for number in range(10))
            )  # fmt: skip
            seen_here, seen_there = await here.take(20), await there.take(20)

        assert seen_here == seen_there
        assert names(await one.get(CONFIGMAPS)) == names(await two.get(CONFIGMAPS))
    for store in stores:
        await store.close()


async def test_a_server_that_missed_compacted_changes_tells_its_watchers_to_list_again(sim):
    etcd = FakeEtcd()
    ours, theirs = (EtcdStore(etcd.client(), chance=Chance(bytes([n]))) for n in range(2))
    async with a_server(sim, store=ours) as client:
        version = (await client.get(CONFIGMAPS))["metadata"]["resourceVersion"]
        path = f"{CONFIGMAPS}?watch=1&resourceVersion={version}"
        async with client.watch(path) as events:
            etcd.cut_watches()
            for number in range(3):
                await theirs.commit([], [Put(f"core/configmaps/default/c{number}", stored(a_stored(f"c{number}")))])
            await theirs.compact(await theirs.revision())

            error = await events.next()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 410)
            assert await events.next() is None

        listed = await client.get(CONFIGMAPS)
        assert names(listed) == ["c0", "c1", "c2"]
        async with client.watch(
            f"{CONFIGMAPS}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
        ) as events:
            await client.create(CONFIGMAPS, a_configmap("after"))
            assert (await events.next())["object"]["metadata"]["name"] == "after"
    for store in (ours, theirs):
        await store.close()


async def test_events_are_counted_for_each_watcher(sim):
    async with a_server(sim) as client:
        await make(client, 2)
        async with (
            client.watch(f"{CONFIGMAPS}?watch=1") as all_of_them,
            client.watch(f"{CONFIGMAPS}?watch=1&labelSelector=i=7") as one_of_them,
        ):
            await all_of_them.take(2)
            async with client.watch(f"{CONFIGMAPS}?watch=1") as as_the_first:
                await as_the_first.take(2)
                await client.create(CONFIGMAPS, a_configmap("c7", {"i": "7"}))
                await client.delete(f"{CONFIGMAPS}/c0")
                for watch, changes in ((all_of_them, 2), (as_the_first, 2), (one_of_them, 1)):
                    await watch.take(changes)

                page = await client.ask("GET", "/metrics")

        counted = [line for line in page.body.splitlines() if line.startswith("apiserver_watch_events_total{")]
        assert counted == ['apiserver_watch_events_total{group="",resource="configmaps",version="v1"} 9.0']


def a_stored(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default", "uid": "0" * 36}, "data": {}}


async def test_a_large_state_is_sent_at_the_pace_of_the_client_while_the_cluster_goes_on(sim):
    async with a_server(sim) as client:
        for number in range(200):
            await client.create(CONFIGMAPS, a_configmap(f"c-{number:03}", text="x" * 50_000))
        query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        async with client.watch(f"{CONFIGMAPS}?{query}") as watch:
            changed = asyncio.create_task(_keep_changing(client))
            seen: list[Any] = []
            while len(seen) < 201:
                event = await watch.next()
                assert event is not None, f"cut off after {len(seen)} events"
                if event["type"] == "ADDED":
                    await tasks.sleep(timedelta(milliseconds=50))
                seen.append(event)
            changed.cancel()
        names = [event["object"]["metadata"]["name"] for event in seen if event["type"] == "ADDED"]
        assert names[:200] == [f"c-{number:03}" for number in range(200)]


async def _keep_changing(client: Client) -> None:
    for number in range(1000):
        await client.ask("PUT", f"{CONFIGMAPS}/c-000", a_configmap("c-000", text=f"{number:05}" * 10_000))
        await tasks.sleep(timedelta(milliseconds=10))


async def test_the_old_path_of_a_watch_is_for_reading_only(sim):
    async with a_server(sim) as client:
        await make(client, 1)

        old = CONFIGMAPS.replace("/namespaces", "/watch/namespaces")
        refused = [(await client.ask(method, old)).status for method in ("DELETE", "POST", "PUT", "OPTIONS")]

        async with client.watch(old) as events:
            assert (await events.next())["object"]["metadata"]["name"] == "c0"
        assert refused == [405, 405, 405, 405]
