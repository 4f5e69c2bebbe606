"""The owner clean-up at work, against a server, in virtual time."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind import Propagation
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, DEFINITIONS, EVENTS, NAMESPACES, NODES, SERVICE_ACCOUNTS
from mainstay.client.errors import Unavailable
from mainstay.client.metadata_source import MetadataSource
from mainstay.env import tasks
from mainstay.sim.cluster.server_proxy import WatchProxy
from tests.controllers.garbage.owned import WEBSITES, a_household, define, named
from tests.controllers.running import CONTROLLER

pytestmark = pytest.mark.slow

A_WHILE = timedelta(minutes=3)
CLUSTERS = KindName("example.dev", "v1", "Fleet", "fleets", False)


async def test_what_an_owner_leaves_behind_goes_and_nothing_else(sim):
    async with a_household(sim) as home:
        owner, other = await home.make("owner"), await home.make("other")
        child = await home.make("child", owner)
        await home.make("grandchild", child)
        await home.make("shared", owner, other)
        await home.make("others", other)
        await home.make("no-owner")
        await home.client.delete(CONFIG_MAPS, "owner", "default")
        await home.at_rest()

        assert await home.names() == ["no-owner", "other", "others", "shared"]
        shared = await home.get("shared")
        assert shared is not None
        assert [each["name"] for each in shared["metadata"]["ownerReferences"]] == ["other"]


async def test_an_owner_in_the_foreground_goes_after_all_that_block_it(sim):
    async with a_household(sim) as home:
        owner = await home.make("owner")
        child = await home.make("child", owner)
        await home.make("grandchild", child, finalizers=["example.dev/hold"])
        await home.make("loose", owner, blocks=False, finalizers=["example.dev/hold"])
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=Propagation.FOREGROUND)
        await tasks.sleep(A_WHILE)
        assert await home.names() == ["child", "grandchild", "loose", "owner"]
        grandchild = await home.client.get(CONFIG_MAPS, "grandchild", "default")
        assert grandchild["metadata"]["deletionTimestamp"]

        await home.client.patch(CONFIG_MAPS, "grandchild", "default", {"metadata": {"finalizers": None}})
        await home.at_rest()
        assert await home.names() == ["loose"]  # It does not block, and is on its way out.


async def test_orphans_stay_and_name_the_owner_no_more(sim):
    async with a_household(sim) as home:
        owner, other = await home.make("owner"), await home.make("other")
        child = await home.make("child", owner)
        await home.make("grandchild", child)
        await home.make("shared", owner, other)
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=Propagation.ORPHAN)
        await home.at_rest()

        assert await home.names() == ["child", "grandchild", "other", "shared"]
        child = await home.client.get(CONFIG_MAPS, "child", "default")
        shared = await home.client.get(CONFIG_MAPS, "shared", "default")
        assert not child["metadata"].get("ownerReferences")
        assert [each["name"] for each in shared["metadata"]["ownerReferences"]] == ["other"]


async def test_an_owner_that_a_restored_store_has_again_is_believed_to_be_there(sim):
    async with a_household(sim) as home:
        await home.at_rest()
        owner = await home.make("owner", kind=SERVICE_ACCOUNTS)
        await home.make("child", owner)
        backup = home.world.backup()
        await home.client.delete(SERVICE_ACCOUNTS, "owner", "default")
        await home.at_rest()
        assert await home.names() == []
        (cleanup,) = home.cleanups.values()

        # The watch of the owner's kind is late: only the server can say that the owner is there.
        def hold(tap: WatchProxy) -> None:
            if tap.who == CONTROLLER and tap.prefix == "core/serviceaccounts/":
                tap.hold()

        home.world.faults.change_taps(hold)
        await home.world.restore(backup)
        await tasks.sleep(A_WHILE)

        assert list(home.cleanups.values()) == [cleanup]
        assert await home.names() == ["child"]


async def test_orphans_are_let_go_that_the_watch_has_not_told_of_yet(sim):
    # As soon as the owner is gone without them, they would be taken for its leavings.
    async with a_household(sim) as home:
        await home.at_rest()
        owner = await home.make("owner")
        await tasks.sleep(timedelta(seconds=2))
        for gate in home.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == CONTROLLER and tap.prefix == "core/configmaps/":
                    tap.hold()
                    home.world.after(timedelta(seconds=20), tap.release)
        account = await home.make("account", owner, kind=SERVICE_ACCOUNTS)
        late = await home.make("late", owner, account)
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=Propagation.ORPHAN)
        await home.at_rest()

        assert await home.names() == ["late"]
        assert [each["name"] for each in late["metadata"]["ownerReferences"]] == ["owner", "account"]
        assert await home.names(SERVICE_ACCOUNTS) == ["account", "default"]


async def test_two_that_own_each_other_go_together(sim):
    async with a_household(sim) as home:
        first = await home.make("first")
        second = await home.make("second", first)
        third = await home.make("third", second)
        await home.client.patch(CONFIG_MAPS, "first", "default", {"metadata": {"ownerReferences": [named(third)]}})
        await home.client.delete(CONFIG_MAPS, "first", "default", propagation=Propagation.FOREGROUND)
        await home.at_rest()
        assert await home.names() == []


async def test_all_of_a_circle_told_to_wait_for_each_other_go(sim):
    async with a_household(sim) as home:
        first = await home.make("first")
        second = await home.make("second", first)
        await home.client.patch(CONFIG_MAPS, "first", "default", {"metadata": {"ownerReferences": [named(second)]}})
        for name in ("first", "second"):
            await home.client.delete(CONFIG_MAPS, name, "default", propagation=Propagation.FOREGROUND)
        await home.at_rest()
        assert await home.names() == []


async def test_what_was_left_while_no_collector_ran_is_found_at_the_next_start(sim):
    # 15
    async with a_household(sim, starts=False) as home:
        owner = await home.make("owner")
        for number in range(20):
            await home.make(f"child-{number}", owner)
        await home.client.delete(CONFIG_MAPS, "owner", "default")
        waiting = await home.make("waiting")
        await home.make("blocking", waiting)
        await home.client.delete(CONFIG_MAPS, "waiting", "default", propagation=Propagation.FOREGROUND)
        letting = await home.make("letting")
        await home.make("kept", letting)
        await home.client.delete(CONFIG_MAPS, "letting", "default", propagation=Propagation.ORPHAN)
        home.world.programs[CONTROLLER].start()
        await home.at_rest()

        assert await home.names() == ["kept"]


async def test_nothing_is_deleted_while_one_kind_has_not_been_read(sim, monkeypatch):
    # 14
    honest = MetadataSource.watch
    unreadable = [SERVICE_ACCOUNTS]

    def watch(self, kind, *given, **more):
        if kind in unreadable:
            raise Unavailable("this kind cannot be read now")
        return honest(self, kind, *given, **more)

    monkeypatch.setattr(MetadataSource, "watch", watch)
    async with a_household(sim, starts=False) as home:
        for number in range(3):
            owner = await home.make(f"owner-{number}", kind=SERVICE_ACCOUNTS)
            await home.make(f"child-{number}", owner)
        gone = await home.make("gone", kind=SERVICE_ACCOUNTS)
        await home.make("leaving", gone)
        await home.client.delete(SERVICE_ACCOUNTS, "gone", "default")
        home.world.programs[CONTROLLER].start()
        await tasks.sleep(timedelta(minutes=5))
        assert home.deletes() == []
        unreadable.clear()
        await home.at_rest()
        assert await home.names() == ["child-0", "child-1", "child-2"]


async def test_one_that_gets_another_owner_before_it_is_deleted_stays(sim):
    # 14 (kubernetes #114603)
    async with a_household(sim) as home:
        owner, other = await home.make("owner"), await home.make("other")
        children = [await home.make(f"child-{number}", owner) for number in range(10)]
        await tasks.sleep(timedelta(seconds=3))
        for gate in home.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == CONTROLLER:
                    tap.hold()
                    home.world.after(timedelta(seconds=5), tap.release)
        for child in children:
            body = {"metadata": {"ownerReferences": [named(other)]}}
            await home.client.patch(CONFIG_MAPS, child["metadata"]["name"], "default", body)
        await home.client.delete(CONFIG_MAPS, "owner", "default")
        await home.at_rest()
        assert len(await home.names()) == 11


async def test_a_name_that_comes_again_is_another_owner(sim):
    async with a_household(sim) as home:
        first = await home.make("owner")
        await home.make("old", first)
        await tasks.sleep(timedelta(seconds=2))
        await home.client.delete(CONFIG_MAPS, "owner", "default")
        second = await home.make("owner")
        await home.make("new", second)
        await home.at_rest()
        assert await home.names() == ["new", "owner"]


WRONG: dict[str, dict[str, Any]] = {
    "in another namespace": {},
    "under another name": {"name": "someone"},
    "as another kind": {"kind": "Secret"},
    "in another group": {"apiVersion": "apps/v1", "kind": "Deployment"},
}


@pytest.mark.parametrize("wrong", WRONG)
async def test_who_names_a_living_owner_wrongly_does_not_take_the_others_with_it(sim, wrong):
    # 14 (kubernetes #65200)
    async with a_household(sim) as home:
        await home.client.create(NAMESPACES, {"metadata": {"name": "else"}})
        owner = await home.make("owner")
        await home.make("right", owner)
        namespace = "else" if wrong == "in another namespace" else "default"
        given = {"name": "wrong", "namespace": namespace, "ownerReferences": [named(owner, **WRONG[wrong])]}
        await home.client.create(CONFIG_MAPS, {"metadata": given})
        await home.make("also", owner)
        await home.at_rest()

        assert await home.names() == ["also", "owner", "right"]
        assert await home.names(namespace="else") == []
        told = [each["reason"] for each in (await home.client.list(EVENTS, namespace)).items]
        assert told == (["OwnerRefInvalidNamespace"] if wrong == "in another namespace" else [])

        # It does not keep the owner either.
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=Propagation.FOREGROUND)
        await home.at_rest()
        assert await home.names() == []


async def test_what_has_no_namespace_cannot_be_owned_by_what_is_in_one(sim):
    async with a_household(sim) as home:
        owner = await home.make("owner")
        await home.make("node", owner, kind=NODES)
        await home.client.delete(CONFIG_MAPS, "owner", "default")
        await home.at_rest()
        assert await home.names(NODES, "") == ["node"]
        (told,) = (await home.client.list(EVENTS)).items
        assert (told["reason"], told["involvedObject"]["name"]) == ("OwnerRefInvalidNamespace", "node")


async def test_something_without_a_namespace_may_own_what_is_in_one(sim):
    async with a_household(sim) as home:
        node = await home.make("node", kind=NODES)
        await home.make("lease", node)
        await home.at_rest()
        assert await home.names() == ["lease"]
        await home.client.delete(NODES, "node")
        await home.at_rest()
        assert await home.names() == []


async def test_custom_kinds_count_as_soon_as_they_are_defined_and_as_long_as_they_are(sim):
    async with a_household(sim) as home:
        await home.at_rest()
        await define(home)
        site = await home.make("site", kind=WEBSITES)
        await home.make("of-site", site)
        plain = await home.make("plain")
        await home.make("of-plain", plain, kind=WEBSITES)
        await home.make("freed", plain, kind=WEBSITES)
        await home.client.delete(CONFIG_MAPS, "plain", "default", propagation=Propagation.ORPHAN)
        await home.at_rest()
        assert await home.names(WEBSITES) == ["freed", "of-plain", "site"]

        await home.client.delete(DEFINITIONS, "websites.example.dev")
        await home.at_rest()
        assert await home.names() == []  # With the definition went the site, and with that what was its.


async def test_an_owner_of_a_kind_that_is_not_served_may_be_there(sim):
    async with a_household(sim) as home:
        owner = {"kind": "Mystery", "apiVersion": "example.dev/v1", "metadata": {"name": "x", "uid": "x"}}
        await home.make("child", owner)
        await tasks.sleep(timedelta(minutes=3))
        assert await home.names() == ["child"]
        assert home.deletes() == []


async def test_a_cluster_in_order_is_read_and_not_written(sim):
    async with a_household(sim) as home:
        owner = await home.make("owner")
        for number in range(10):
            await home.make(f"child-{number}", owner)
        await tasks.sleep(timedelta(minutes=10))
        assert [
            each for each in home.writes() if "/leases" not in each.path and "componentstates" not in each.path
        ] == []


@pytest.mark.parametrize("way", [Propagation.FOREGROUND, Propagation.ORPHAN])
async def test_a_second_deletion_that_says_nothing_changes_nothing_about_the_dependents(sim, way):
    async with a_household(sim, loops=()) as home:
        await home.make("owner")
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=way)
        first = await home.get("owner")
        await home.client.delete(CONFIG_MAPS, "owner", "default")
        assert await home.get("owner") == first
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=Propagation.BACKGROUND)
        assert await home.get("owner") is None


async def test_each_write_carries_a_decision_that_is_recorded_with_its_reason(sim):
    async with a_household(sim) as home:
        owner = await home.make("owner")
        await home.make("child", owner)
        await home.client.delete(CONFIG_MAPS, "owner", "default", propagation=Propagation.FOREGROUND)
        await home.at_rest()
        written = [each.decision for each in home.writes() if "/configmaps/" in each.path]
        assert [each.id for each in home.records] == written
        assert [(each.subject.name, each.actions[0].verb, each.reasons) for each in home.records] == [
            ("child", "delete", ("none of its owners exists any longer",)),
            ("owner", "patch", ("all blocking dependents are deleted",)),
        ]
