"""Bugs that the clean-up behind owners and the deletion of namespaces could have."""

from typing import Any

import pytest

from mainstay.client.client import Client
from mainstay.client.served_kinds import Served, served_kinds
from mainstay.controllers.garbage.decide import GarbageInput, RemoveObject, Standing
from mainstay.controllers.garbage.follow import Following
from mainstay.controllers.garbage.loop import OwnerCleanup
from mainstay.controllers.garbage.vertices import Reference, Vertex
from mainstay.controllers.namespace import content
from mainstay.controllers.namespace import loop as namespaces
from mainstay.controllers.namespace.content import NamespaceContent, NamespacePlan
from mainstay.controllers.namespace.loop import NamespaceDeletion
from mainstay.loop.queue.items import DONE

# Owners


def takes_what_is_not_in_the_graph_for_gone(patch: pytest.MonkeyPatch) -> None:
    """Does not ask the server. At a start, and with a watch that is late, the graph lacks what is there."""

    async def standing(self: OwnerCleanup, reference: Reference, namespace: str) -> Standing:
        owner = self.graph.nodes.get(reference.uid)
        if owner is None or not owner.is_meant_by(reference, namespace):
            return Standing.ABSENT
        return Standing.WAITS if owner.waits_for_dependents else Standing.HOLDS

    patch.setattr(OwnerCleanup, "_standing", standing)


def finishes_with_half_a_graph(patch: pytest.MonkeyPatch) -> None:
    async def is_whole(self: Following, revision: int) -> bool:
        return True

    patch.setattr(Following, "is_whole", is_whole)


def looks_only_at_what_changes(patch: pytest.MonkeyPatch) -> None:
    """What was left while no leader cleaned up does not change any more."""
    honest = Following.filled

    async def filled(self: Following) -> None:
        wake, self._wake = self._wake, lambda uid: None
        await honest(self)
        self._wake = wake

    patch.setattr(Following, "filled", filled)


def knows_owners_by_name(patch: pytest.MonkeyPatch) -> None:
    """Another one that has got the name is taken for the owner."""
    honest = OwnerCleanup._standing

    async def standing(self: OwnerCleanup, reference: Reference, namespace: str) -> Standing:
        kind = self.following.served.find(reference.group, reference.kind)
        if kind is None:
            return await honest(self, reference, namespace)
        for node in self.graph.nodes.values():
            place = (node.kind.group, node.kind.kind, node.key.namespace, node.key.name)
            if place == (reference.group, reference.kind, namespace, reference.name):
                return Standing.WAITS if node.waits_for_dependents else Standing.HOLDS
        return await honest(self, reference, namespace)

    patch.setattr(OwnerCleanup, "_standing", standing)


def knows_owners_by_uid_alone(patch: pytest.MonkeyPatch) -> None:
    """A reference in another namespace then holds, too."""
    patch.setattr(Vertex, "is_meant_by", lambda self, reference, namespace: reference.uid == self.uid)


def takes_one_wrong_reference_for_all(patch: pytest.MonkeyPatch) -> None:
    """That there is no such owner in one namespace is remembered by its uid, for all of them."""
    honest, gone = OwnerCleanup._standing, "_gone_by_uid"

    async def standing(self: OwnerCleanup, reference: Reference, namespace: str) -> Standing:
        absent: dict[str, None] = self.__dict__.setdefault(gone, {})
        found = Standing.ABSENT if reference.uid in absent else await honest(self, reference, namespace)
        if found is Standing.ABSENT:
            absent[reference.uid] = None
        return found

    patch.setattr(OwnerCleanup, "_standing", standing)
    patch.setattr("mainstay.controllers.garbage.graph.Graph.holds", lambda self, reference, namespace: False)


def deletes_whatever_it_has_become(patch: pytest.MonkeyPatch) -> None:
    """By its uid, but not in the version that was looked at: it may have another owner by now."""

    honest = OwnerCleanup._remove

    async def remove(
        self: OwnerCleanup, node: Vertex, obj: dict[str, Any], plan: RemoveObject, known: GarbageInput
    ) -> None:
        await honest(self, node, {"metadata": {**obj["metadata"], "resourceVersion": ""}}, plan, known)

    patch.setattr(OwnerCleanup, "_remove", remove)


def believes_for_ever_that_an_owner_is_gone(patch: pytest.MonkeyPatch) -> None:
    """Also when the store is restored from a backup that has it."""
    patch.setattr(OwnerCleanup, "_is_known_absent", lambda self, place: place in self._absent)


# Namespaces


def knows_no_custom_kinds(patch: pytest.MonkeyPatch) -> None:
    async def all_kinds(client: Client) -> Served:
        served = await served_kinds(client)
        return Served(tuple(each for each in served.kinds if each.name.group != "example.dev"))

    patch.setattr(namespaces, "all_kinds", all_kinds)


def is_done_when_all_was_told_to_go(patch: pytest.MonkeyPatch) -> None:
    honest = content.decide

    def decide(found: NamespaceContent) -> NamespacePlan:
        plan = honest(found)
        is_over = all(each.is_leaving for each in found.left) and not found.unlisted and not found.undiscovered
        return NamespacePlan(is_over=True) if is_over else plan

    patch.setattr(namespaces, "decide", decide)


def looks_once(patch: pytest.MonkeyPatch) -> None:
    """And then waits for a change that never comes."""
    honest = NamespaceDeletion.look

    async def look(self: NamespaceDeletion, item: Any) -> Any:
        await honest(self, item)
        return DONE

    patch.setattr(NamespaceDeletion, "look", look)
