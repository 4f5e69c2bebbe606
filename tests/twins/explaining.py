"""Bugs that would make an explanation wrong: in what is recorded, and in what is made of it."""

import pytest
from msgspec.structs import replace

from mainstay.journal.record import ViewPart
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
