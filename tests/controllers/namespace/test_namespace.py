"""Namespaces are deleted with all that is in them: what is decided, and at work in virtual time."""

import contextlib
from dataclasses import replace
from datetime import timedelta

import pytest

from mainstay.api.kind_names import CONFIG_MAPS, DEFINITIONS, DEPLOYMENTS, EVENTS, LEASES, NAMESPACES, PODS
from mainstay.client import served_kinds as discovery
from mainstay.client.errors import AlreadyExists, Forbidden, NotFound, Unavailable
from mainstay.client.metadata_source import MetadataSource
from mainstay.client.served_kinds import Served
from mainstay.controllers.namespace import loop as under_test
from mainstay.controllers.namespace.content import Left, NamespaceContent, NamespacePlan, build_conditions, decide
from mainstay.env import tasks
from tests.controllers.garbage.owned import NAMESPACES_TOO, WEBSITES, Household, Object, a_household, define, definition
from tests.controllers.running import CONTROLLER, a_deployment

pytestmark = pytest.mark.slow

POD = Left(PODS, "web-1", "u1")
MAP = Left(CONFIG_MAPS, "settings", "u2")


def said(found: NamespaceContent) -> dict[str, tuple[str, str]]:
    return {each.type.removeprefix("Namespace"): (str(each.status), each.reason) for each in build_conditions(found)}


# What is decided.


def test_an_empty_namespace_is_over():
    assert decide(NamespaceContent()) == NamespacePlan(is_over=True)


def test_what_is_left_is_told_to_go_once():
    gone = replace(MAP, is_leaving=True)
    other = Left(CONFIG_MAPS, "other", "u3")
    assert decide(NamespaceContent((gone, other))).deletes == (other,)
    assert decide(NamespaceContent((gone,))).deletes == ()
    assert not decide(NamespaceContent((gone,))).is_over


@pytest.mark.parametrize(
    ("found", "deletes"),
    [
        (NamespaceContent((MAP, POD)), (POD,)),
        (NamespaceContent((MAP, replace(POD, is_leaving=True))), ()),
        (NamespaceContent((MAP,), unlisted={"pods": "forbidden"}), ()),
        (NamespaceContent((MAP,), unlisted={"leases.coordination.k8s.io": "forbidden"}), (MAP,)),
    ],
)
def test_pods_go_before_all_else(found, deletes):
    assert decide(found).deletes == deletes


@pytest.mark.parametrize(
    "found",
    [
        NamespaceContent(unlisted={"secrets": "forbidden"}),
        NamespaceContent(undiscovered={"example.dev/v1": "no answer"}),
    ],
)
def test_what_cannot_be_looked_at_keeps_it_open(found):
    assert not decide(found).is_over


def test_the_conditions_say_what_is_left_and_what_that_waits_for():
    held = replace(MAP, is_leaving=True, finalizers=("example.dev/hold",))
    assert said(
        NamespaceContent((POD, held), unlisted={"secrets": "forbidden"}, undiscovered={"example.dev/v1": "no answer"})
    ) == {
        "DeletionDiscoveryFailure": ("True", "DiscoveryFailed"),
        "DeletionContentFailure": ("True", "ContentDeletionFailed"),
        "ContentRemaining": ("True", "SomeResourcesRemain"),
        "FinalizersRemaining": ("True", "SomeFinalizersRemain"),
    }
    assert said(NamespaceContent((MAP,))) == {
        "DeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
        "DeletionContentFailure": ("False", "ContentDeleted"),
        "ContentRemaining": ("True", "SomeResourcesRemain"),
        "FinalizersRemaining": ("False", "ContentHasNoFinalizers"),
    }
    texts = {
        each.type: each.message
        for each in build_conditions(NamespaceContent((held, POD, replace(POD, uid="u9", name="web-2"))))
    }
    assert texts["NamespaceContentRemaining"] == "Some resources are remaining: configmaps (1), pods (2)"
    assert (
        texts["NamespaceFinalizersRemaining"]
        == "Some content in the namespace has finalizers remaining: example.dev/hold (1)"
    )


def test_what_is_left_of_very_many_kinds_is_still_a_short_sentence():
    many = tuple(Left(replace(CONFIG_MAPS, plural=f"things{number:03}"), "x", f"u{number}") for number in range(500))
    (text,) = [
        each.message for each in build_conditions(NamespaceContent(many)) if each.type == "NamespaceContentRemaining"
    ]
    assert text.endswith("things009 (1) and 490 more")


# At work.


async def make_namespace(home: Household, name: str = "team") -> Object:
    return await home.client.create(NAMESPACES, {"metadata": {"name": name}})


async def conditions(home: Household, name: str = "team") -> dict[str, Object]:
    found = await home.client.get(NAMESPACES, name)
    return {each["type"]: each for each in found["status"].get("conditions") or ()}


async def is_gone(home: Household, name: str = "team") -> bool:
    try:
        await home.client.get(NAMESPACES, name)
    except NotFound:
        return True
    return False


async def test_all_that_is_in_it_goes_custom_kinds_and_many_objects_included(sim):
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await define(home)
        await make_namespace(home)
        for number in range(520):
            await home.make(f"map-{number}", namespace="team")
        site = await home.make("site", kind=WEBSITES, namespace="team")
        await home.make("of-site", site, namespace="team")
        await home.make("lease", kind=LEASES, namespace="team")
        deployment = a_deployment()
        deployment["metadata"]["namespace"] = "team"
        await home.client.create(DEPLOYMENTS, deployment)
        event = {
            "metadata": {"name": "event", "namespace": "team"},
            "involvedObject": {"kind": "Pod", "namespace": "team", "name": "x"},
        }
        await home.client.create(EVENTS, event)
        await home.make("elsewhere")
        await home.client.delete(NAMESPACES, "team")
        await home.at_rest()

        assert await is_gone(home)
        assert await home.names() == ["elsewhere"]
        for kind in (CONFIG_MAPS, WEBSITES, LEASES, DEPLOYMENTS, EVENTS):
            assert await home.names(kind, "team") == []


async def test_a_finalizer_in_it_holds_it_open_and_is_named(sim):
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await make_namespace(home)
        await home.make("held", namespace="team", finalizers=["example.dev/hold"])
        await home.client.delete(NAMESPACES, "team")
        await tasks.sleep(timedelta(minutes=5))
        found = await conditions(home)
        assert found["NamespaceContentRemaining"]["message"] == "Some resources are remaining: configmaps (1)"
        assert (
            found["NamespaceFinalizersRemaining"]["message"]
            == "Some content in the namespace has finalizers remaining: example.dev/hold (1)"
        )
        assert found["NamespaceDeletionContentFailure"]["status"] == "False"
        writes = len([each for each in home.writes() if "/namespaces/team" in each.path])
        await tasks.sleep(timedelta(minutes=3))
        assert len([each for each in home.writes() if "/namespaces/team" in each.path]) == writes  # Nothing to add.

        await home.client.patch(CONFIG_MAPS, "held", "team", {"metadata": {"finalizers": None}})
        await home.at_rest()
        assert await is_gone(home)


async def test_what_cannot_be_listed_or_deleted_holds_it_open_and_is_said(sim, monkeypatch):
    honest, refused = MetadataSource.list_raw, [CONFIG_MAPS]

    async def list_raw(self, kind, *given, **more):
        if kind in refused:
            raise Forbidden("you may not list them", status=403)
        return await honest(self, kind, *given, **more)

    monkeypatch.setattr(MetadataSource, "list_raw", list_raw)
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await make_namespace(home)
        await home.client.delete(NAMESPACES, "team")
        await tasks.sleep(timedelta(minutes=5))
        found = (await conditions(home))["NamespaceDeletionContentFailure"]
        assert (found["status"], found["message"]) == ("True", "configmaps: you may not list them")
        refused.clear()
        await home.at_rest()
        assert await is_gone(home)


async def test_kinds_that_cannot_be_asked_for_hold_it_open_and_are_said(sim, monkeypatch):
    honest, problems = discovery.all_kinds, {"metrics.example.dev/v1": "no answer"}

    async def all_kinds(client):
        found = await honest(client)
        return Served(found.kinds, dict(problems))

    monkeypatch.setattr(under_test, "all_kinds", all_kinds)
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await make_namespace(home)
        await home.client.delete(NAMESPACES, "team")
        await tasks.sleep(timedelta(minutes=5))
        found = (await conditions(home))["NamespaceDeletionDiscoveryFailure"]
        assert (found["status"], found["message"]) == ("True", "metrics.example.dev/v1: no answer")
        problems.clear()
        await home.at_rest()
        assert await is_gone(home)


async def test_a_kind_that_the_server_asked_does_not_know_yet_holds_it_open(sim, monkeypatch):
    honest, is_behind = discovery.served_kinds, [True]

    async def served_kinds(client):
        found = await honest(client)
        if not is_behind:
            return found
        return Served(tuple([each for each in found.kinds if each.name.group != WEBSITES.group]), found.problems)

    monkeypatch.setattr(discovery, "served_kinds", served_kinds)
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await define(home)
        await make_namespace(home)
        await home.make("site", kind=WEBSITES, namespace="team")
        await home.client.delete(NAMESPACES, "team")
        await tasks.sleep(timedelta(minutes=5))
        found = (await conditions(home))["NamespaceDeletionDiscoveryFailure"]
        assert found["message"] == "example.dev/v1: websites are defined but not served yet"
        is_behind.clear()
        await home.at_rest()
        assert await is_gone(home)
        assert await home.names(WEBSITES, "team") == []


async def test_a_definition_that_is_refused_holds_nothing_open(sim):
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await define(home)
        taken = definition(replace(WEBSITES, plural="webpages"))  # The kind's name is taken.
        await home.client.create(DEFINITIONS, taken)
        await make_namespace(home)
        await home.client.delete(NAMESPACES, "team")
        await home.at_rest()
        assert await is_gone(home)


async def test_others_may_hold_a_namespace_too(sim):
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        given = {"metadata": {"name": "team"}, "spec": {"finalizers": ["kubernetes", "example.dev/mine"]}}
        await home.client.create(NAMESPACES, given)
        await home.client.delete(NAMESPACES, "team")
        await home.at_rest()
        found = await home.client.get(NAMESPACES, "team")
        assert found["spec"]["finalizers"] == ["example.dev/mine"]


async def test_a_namespace_of_the_same_name_is_another_one(sim):
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        for round_ in range(10):
            with contextlib.suppress(AlreadyExists):
                await make_namespace(home)
            try:
                await home.make(f"map-{round_}", namespace="team")
            except Forbidden:  # It is still being deleted.
                await tasks.sleep(timedelta(milliseconds=300))
                continue
            await home.client.delete(NAMESPACES, "team")
        await home.at_rest()
        assert await is_gone(home)
        await make_namespace(home)
        await home.make("stays", namespace="team")
        await home.at_rest()
        found = await home.client.get(NAMESPACES, "team")
        assert (found["status"]["phase"], found["spec"]["finalizers"]) == ("Active", ["kubernetes"])
        assert await home.names(namespace="team") == ["stays"]


async def test_who_finishes_a_namespace_says_which_one(sim):
    # The server refuses to finish another one of the same name.
    async with a_household(sim, loops=()) as home:
        await make_namespace(home)
        body = {
            "kind": "Namespace",
            "apiVersion": "v1",
            "metadata": {"name": "team", "uid": "another"},
            "spec": {"finalizers": []},
        }
        with pytest.raises(Exception, match="Precondition failed: UID"):
            await home.client.replace(NAMESPACES, body, subresource="finalize")


async def test_a_server_that_is_away_for_a_while_only_takes_time(sim, monkeypatch):
    honest, is_away = MetadataSource.list_raw, [True]

    async def list_raw(self, kind, *given, **more):
        if is_away:
            raise Unavailable("no answer")
        return await honest(self, kind, *given, **more)

    monkeypatch.setattr(MetadataSource, "list_raw", list_raw)
    async with a_household(sim, loops=NAMESPACES_TOO) as home:
        await make_namespace(home)
        await home.make("map", namespace="team")
        await home.client.delete(NAMESPACES, "team")
        await tasks.sleep(timedelta(minutes=5))
        assert not await is_gone(home)
        is_away.clear()
        await home.at_rest()
        assert await is_gone(home)
        assert [each.path for each in home.deletes(CONTROLLER) if "configmaps" in each.path]
