"""Bugs that the keeping of slices, and of progress records, could have."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import ENDPOINT_SLICES
from mainstay.api.object_key import ObjectKey
from mainstay.api.progress import Error, Progress, ProgressLimit, ProgressVerdict
from mainstay.client.entry import CachedObject, Change
from mainstay.controllers.endpoints import selectors, slices
from mainstay.controllers.endpoints.packing import _Packer
from mainstay.controllers.endpoints.routes import Endpoint, EndpointGroup
from mainstay.controllers.endpoints.serving import Serving
from mainstay.controllers.endpoints.slices import EndpointSlices
from mainstay.controllers.progress import controller
from mainstay.loop.decision import Decision, Delete, Patch
from mainstay.server.services.api_service import ApiService, ServerEndpoint
from tests.twins.scenarios import decides_without_having_seen_its_own_writes

# Slices


def makes_slices_under_new_names_on_what_it_has_seen(patch: pytest.MonkeyPatch) -> None:
    """As in kubernetes #100033: a name that no retry can meet, and a cache that does not show the first yet."""
    numbers = itertools.count()
    patch.setattr(slices, "build_slice_name", lambda service, piece, number: f"{service['name']}-{next(numbers)}")
    decides_without_having_seen_its_own_writes(patch)


def puts_in_before_it_takes_out(patch: pytest.MonkeyPatch) -> None:
    """So that what moves is never nowhere."""
    honest = EndpointSlices.decide

    def unplaced(self: _Packer, group: EndpointGroup, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        placed = self._placed(group.family)
        return [each for each in endpoints if each.identity not in placed]

    def decide(self: EndpointSlices, view: Any, key: ObjectKey, memory: Any) -> Decision:
        decision = honest(self, view, key, memory)
        return replace(decision, actions=decision.actions[::-1])

    patch.setattr(_Packer, "_unplaced", unplaced)
    patch.setattr(EndpointSlices, "decide", decide)


def does_not_hear_that_a_pod_was_taken_out(patch: pytest.MonkeyPatch) -> None:
    """Only those are woken that select it now."""
    first, *rest = EndpointSlices.reads
    honest = selectors.selecting_pods()

    def wakes(change: Change, services: Any) -> Iterable[ObjectKey]:
        return honest(Change(change.kind, change.key, change.type, None, change.new, change.revision), services)

    patch.setattr(EndpointSlices, "reads", (replace(first, wakes_among=wakes), *rest))


def looks_at_addresses_only(patch: pytest.MonkeyPatch) -> None:
    """And not at whether a pod is ready."""
    honest = selectors._routed

    def routed(entry: CachedObject | None) -> tuple[Any, list[Any]]:
        labels, facts = honest(entry)
        return labels, facts[:-1]

    patch.setattr(selectors, "_routed", routed)


def leaves_what_a_former_service_had(patch: pytest.MonkeyPatch) -> None:
    honest = EndpointSlices.decide

    def decide(self: EndpointSlices, view: Any, key: ObjectKey, memory: Any) -> Decision:
        decision = honest(self, view, key, memory)
        service = view.get(self.kind, key)
        kept = [each for each in decision.actions if not _is_of_another(view, each, service)]
        return replace(decision, actions=tuple(kept))

    def _is_of_another(view: Any, action: Any, service: Object) -> bool:
        if not isinstance(action, Delete):
            return False
        piece = view.get(ENDPOINT_SLICES, action.key)
        return piece is not None and slices._is_of_another(piece, service)

    patch.setattr(EndpointSlices, "decide", decide)


# The stage


def does_not_follow_slices(patch: pytest.MonkeyPatch) -> None:
    first, *rest = Serving.reads
    patch.setattr(Serving, "reads", (replace(first, wakes=None), *rest))


# The record


def writes_the_whole_status(patch: pytest.MonkeyPatch) -> None:
    """As it has seen it, and with it what is not its own."""
    honest = controller.ProgressRecorder.decide

    def decide(self: controller.ProgressRecorder, view: Any, key: ObjectKey, memory: Any) -> Decision:
        decision = honest(self, view, key, memory)
        workload = view.get(self.kind, key)
        actions = [
            replace(each, body={"status": {**(workload.get("status") or {}), **each.body["status"]}})
            for each in decision.actions
            if isinstance(each, Patch)
        ]
        return replace(decision, actions=tuple(actions))

    patch.setattr(controller.ProgressRecorder, "decide", decide)


def says_when_it_last_looked_at_an_error(patch: pytest.MonkeyPatch) -> None:
    """Two of these keep each other awake."""

    def last_error(
        limit: ProgressLimit | None, verdict: ProgressVerdict, before: Progress | None, now: datetime
    ) -> Error | None:
        return Error("Looked", at=times.format_time(now))

    patch.setattr(controller, "_last_error", last_error)


def looks_at_its_pods_no_more_than_once(patch: pytest.MonkeyPatch) -> None:
    """What changes soon after a look is not looked at again."""
    honest = controller.ProgressRecorder.decide

    def decide(self: controller.ProgressRecorder, view: Any, key: ObjectKey, memory: Any) -> Decision:
        decision = honest(self, view, key, memory)
        return decision if decision.actions else Decision(memory=decision.memory)

    patch.setattr(controller.ProgressRecorder, "decide", decide)


# The Service of the API servers


def counts_a_server_for_ever(patch: pytest.MonkeyPatch) -> None:
    """One that was alive once stays in the Endpoints."""
    patch.setattr(ApiService, "_has_ended", lambda self, unchanged_ns: False)


def counts_only_itself(patch: pytest.MonkeyPatch) -> None:
    """Each server overwrites what the others say of themselves."""

    async def find_living(self: ApiService) -> list[ServerEndpoint]:
        return [self._own]

    patch.setattr(ApiService, "_find_living", find_living)
