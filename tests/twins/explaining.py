"""Bugs that would make an explanation wrong: in what is recorded, and in what is made of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from mainstay import registry
from mainstay.api.kind_names import PLACEMENT_POLICIES
from mainstay.client.call import WriteOptions
from mainstay.explain.declared import Declared
from mainstay.journal import sampling
from mainstay.journal.record import DecisionRecord, ViewPart
from mainstay.loop import controller_loop, events, record
from mainstay.loop.kernel import Kernel
from mainstay.scheduler import bind
from mainstay.scheduler.cluster_state import ClusterState, ClusterView
from mainstay.scheduler.record import Setting
from mainstay.scheduler.record_writer import RecordWriter
from mainstay.scheduler.why import debug


def names_its_view_by_the_latest_cache(patch: pytest.MonkeyPatch) -> None:
    """One number for all kinds, as if all caches were always equally far."""

    honest = RecordWriter.build_setting

    def build_setting(self: RecordWriter, view: ClusterView, state: ClusterState) -> Setting:
        made = honest(self, view, state)
        latest = max(seen.revision for seen in made.view)
        return replace(made, view=tuple(ViewPart(seen.kind, latest) for seen in made.view))

    patch.setattr(RecordWriter, "build_setting", build_setting)


def takes_the_reason_for_the_cause(patch: pytest.MonkeyPatch) -> None:
    """What the scheduler said is believed, and not tried again on what there is now."""
    patch.setattr(debug, "would_place", lambda placing, versions: "")


def compares_with_what_a_component_says_of_itself(patch: pytest.MonkeyPatch) -> None:
    """A ComponentState is up to ten seconds old, and about another moment than the decision."""
    honest = debug.PendingPodViews._latest

    async def latest(self: debug.PendingPodViews, kind: str, seen: int) -> int:
        return min(await honest(self, kind, seen), max(self._says("scheduler-1", kind), seen))

    patch.setattr(debug.PendingPodViews, "_latest", latest)


# For what can be followed from the journal (scenario decision-paths).


def binds_without_naming_its_decision(patch: pytest.MonkeyPatch) -> None:
    """The binding is made, but nothing leads from it to its record."""
    honest = bind._item
    patch.setattr(bind, "_item", lambda wanted: replace(honest(wanted), decision=""))


def says_it_has_seen_what_it_wrote(patch: pytest.MonkeyPatch) -> None:
    """A view that is named after the writes, by the latest of them."""
    honest = record.record_decision

    def record_decision(*args: Any) -> DecisionRecord:
        made = honest(*args)
        latest = max((each.revision for each in made.writes), default=0)
        return replace(made, view=tuple(replace(each, revision=max(each.revision, latest)) for each in made.view))

    patch.setattr(controller_loop, "record_decision", record_decision)


def tells_events_without_their_decision(patch: pytest.MonkeyPatch) -> None:
    """People read them; nothing joins them with records, traces and audit lines."""
    patch.setattr(events, "_annotated", lambda said: {})


def does_not_say_what_a_write_follows_from(patch: pytest.MonkeyPatch) -> None:
    honest = Kernel.write

    def write(self: Kernel, decision: str = "", cause: str = "", **named: Any) -> WriteOptions:
        return honest(self, decision, "", **named)

    patch.setattr(Kernel, "write", write)


def declares_less_than_it_reads(patch: pytest.MonkeyPatch) -> None:
    """The scheduler has learnt to follow PlacementPolicies, and the table of what components read has not."""
    known = registry._OTHERS["scheduler"]
    reads = {kind: wakes for kind, wakes in known.reads.items() if kind != PLACEMENT_POLICIES.text}
    patch.setattr(registry, "_OTHERS", {**registry._OTHERS, "scheduler": Declared(reads, known.writes)})


def samples_what_no_node_takes(patch: pytest.MonkeyPatch) -> None:
    """Takes a decision for a failure only if a write of it failed: not if it found nothing to write."""
    patch.setattr(sampling, "is_failure", lambda decision: any(each.error for each in decision.writes))
