"""Bugs that Mainstay has had, that runs of scenarios have found, and that no other twin plants again (docs/BUGS.md)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mainstay.agent.pod.restarts import Backoff
from mainstay.agent.pod.status_report import StatusReport
from mainstay.client.cache import Cache
from mainstay.client.entry import CachedObject, Change
from mainstay.client.reflector import Instructions, OpenWatch, Reflector
from mainstay.controllers.deployment import controller, rolling
from mainstay.controllers.deployment.controller import Rollout
from mainstay.controllers.deployment.rolling import Bounds, SetSize
from mainstay.controllers.node_health import decide, observer
from mainstay.controllers.node_health.heartbeats import Heard, Isolation, Listening
from mainstay.controllers.replicaset import controller as replicaset
from mainstay.loop.controller_loop import ControllerLoop
from mainstay.loop.decision import Patch
from mainstay.loop.record import Acted
from mainstay.scheduler.report import PodConditionReason, PodReport, Reporter
from mainstay.server.storage.epochs import StoreEpochs
from mainstay.server.watch.session import _Session as Session


def goes_on_from_revisions_that_never_were(patch: pytest.MonkeyPatch) -> None:
    async def is_unheard_of(self: Session, revision: int) -> bool:
        return False

    async def covers(self: StoreEpochs, name: str, revision: int) -> bool:
        return True

    patch.setattr(Session, "_is_future_revision", is_unheard_of)
    patch.setattr(StoreEpochs, "covers", covers)  # It would be noticed by the opening as well.


def takes_the_same_revision_for_the_same_object(patch: pytest.MonkeyPatch) -> None:
    honest = Cache.replace

    def replace(
        self: Cache, entries: Iterable[CachedObject], revision: int, *, is_rewind: bool = False
    ) -> Sequence[Change]:
        held = {entry.key: entry for entry in self.entries()}
        known = [
            held[entry.key] if (old := held.get(entry.key)) is not None and _is_same(old, entry) else entry
            for entry in entries
        ]
        return honest(self, known, revision, is_rewind=is_rewind)

    patch.setattr(Cache, "replace", replace)


def _is_same(old: CachedObject, new: CachedObject) -> bool:
    return (old.uid, old.revision) == (new.uid, new.revision)


def does_not_say_of_which_store_its_revision_is(patch: pytest.MonkeyPatch) -> None:
    honest = Reflector._resume

    def resume(self: Reflector) -> Instructions:
        honest(self)
        return (OpenWatch(self.revision),)

    patch.setattr(Reflector, "_resume", resume)


def lets_two_writers_at_one_pod(patch: pytest.MonkeyPatch) -> None:
    def next_(self: Reporter) -> PodReport | None:
        return self._waiting.pop(next(iter(self._waiting))) if self._waiting else None

    async def write(self: Reporter, report: PodReport) -> None:
        await (self._retrying(report) if report.reason is PodConditionReason.BINDING_UNANSWERED else self._one(report))

    patch.setattr(Reporter, "_next", next_)
    patch.setattr(Reporter, "_write", write)


def goes_by_what_a_set_has_said_of_its_past(patch: pytest.MonkeyPatch) -> None:
    def unsaid(rollout: Rollout) -> list[str]:
        return []

    patch.setattr(controller, "_unsaid", unsaid)


def says_what_it_has_found_out_though_it_is_held(patch: pytest.MonkeyPatch) -> None:
    honest_patch, honest_held = ControllerLoop._status_patch, ControllerLoop._is_held
    is_saying = False

    def status_patch(self: ControllerLoop, *given: Any) -> Patch | None:
        nonlocal is_saying
        found = honest_patch(self, *given)
        is_saying = found is not None  # Then the next question is whether that may be said.
        return found

    def is_held(self: ControllerLoop, acted: Acted) -> bool:
        nonlocal is_saying
        is_saying, may_say = False, is_saying
        return not may_say and honest_held(self, acted)

    patch.setattr(ControllerLoop, "_status_patch", status_patch)
    patch.setattr(ControllerLoop, "_is_held", is_held)


def does_not_hear_that_a_node_was_there(patch: pytest.MonkeyPatch) -> None:
    def without_node(heard: Heard, now_ns: int) -> Heard:
        return heard

    patch.setattr(observer, "without_node", without_node)


def never_looks_again_while_it_reports(patch: pytest.MonkeyPatch) -> None:
    def forget(self: StatusReport, has_more: bool) -> None:
        """Whatever came meanwhile."""

    patch.setattr(StatusReport, "has_more", property(lambda self: False, forget), raising=False)


def sizes_each_set_by_its_own_note(patch: pytest.MonkeyPatch) -> None:
    def share(bounds: Bounds, size: SetSize, to_add: int, added: int, most_now: int) -> int:
        before = size.most_before or most_now
        wanted = (2 * size.wanted * bounds.most + before) // (2 * before) - size.wanted
        return min(wanted, to_add - added) if to_add > 0 else max(wanted, to_add - added)

    patch.setattr(rolling, "_share", share)


def gives_up_in_proportion_whatever_works(patch: pytest.MonkeyPatch) -> None:
    def with_what_is_needed(bounds: Bounds, sets: Sequence[SetSize], sizes: dict[str, int]) -> dict[str, int]:
        return sizes

    patch.setattr(rolling, "_with_what_is_needed", with_what_is_needed)


def drains_pods_whatever_has_become_of_them(patch: pytest.MonkeyPatch) -> None:
    honest = replicaset._drain
    patch.setattr(replicaset, "_drain", lambda pod: replace(honest(pod), resource_version=""))


def counts_silence_from_before_the_first_heartbeat(patch: pytest.MonkeyPatch) -> None:
    def listen_after_isolation(before: Listening, isolation: Isolation | None) -> Listening:
        return before

    patch.setattr(decide, "listen_after_isolation", listen_after_isolation)


def waits_until_the_clock_has_come_so_far_again(patch: pytest.MonkeyPatch) -> None:
    def is_over(self: Backoff, now: datetime) -> bool:
        return now >= self.until

    patch.setattr(Backoff, "is_over", is_over)
