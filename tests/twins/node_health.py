"""Bugs that node health could have."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainstay.api import times
from mainstay.api.node_health import OUT_OF_SERVICE
from mainstay.api.taints import Taint
from mainstay.client.entry import Change
from mainstay.controllers.node_health import actions, decide, heartbeats, observer, plan, zones
from mainstay.controllers.node_health import evidence as node_evidence
from mainstay.controllers.node_health import loop as node_loop
from mainstay.controllers.node_health import pods as node_pods
from mainstay.controllers.node_health.evidence import Hearing, judge_hearing
from mainstay.controllers.node_health.heartbeats import Heard, Listening
from mainstay.controllers.node_health.plan import (
    MarkPod,
    NodeHealthMemory,
    NodeSnapshot,
    RemoveDeadPod,
    Step,
    WriteNode,
)
from mainstay.loop import evidence
from mainstay.loop.periodic import Pass

# Hearing


def trusts_the_times_in_leases(patch: pytest.MonkeyPatch) -> None:
    """Goes by when a node says that it has renewed, and by its own wall clock."""
    renewed: dict[str, datetime] = {}
    honest_changed, honest_snapshot = observer.HeartbeatObserver._lease_changed, node_loop.NodeHealth._snapshot

    def changed(self: observer.HeartbeatObserver, change: Change) -> None:
        honest_changed(self, change)
        if change.new is not None and (at := (change.new.object().get("spec") or {}).get("renewTime")):
            renewed[change.key.name] = times.parse_time(at)

    def snapshot(self: node_loop.NodeHealth, own: Any, now: datetime) -> NodeSnapshot:
        seen = honest_snapshot(self, own, now)
        wall = self._clock.wall()
        heard = {}
        for name, each in seen.heard.items():
            ago = max(wall - renewed[name], timedelta()) if name in renewed else timedelta()
            at_ns = seen.now_ns - ago // timedelta(microseconds=1) * 1000
            heard[name] = replace(each, heartbeat_ns=at_ns, first_ns=min(each.first_ns, at_ns))
        return replace(seen, heard=heard)

    patch.setattr(observer.HeartbeatObserver, "_lease_changed", changed)
    patch.setattr(node_loop.NodeHealth, "_snapshot", snapshot)
    patch.setattr(node_evidence, "silent_for", _since_the_heartbeat)
    patch.setattr(decide, "silent_for", _since_the_heartbeat)


def _since_the_heartbeat(heard: Heard, since_ns: int, now_ns: int) -> timedelta:
    return timedelta(microseconds=max(0, now_ns - (heard.heartbeat_ns or heard.first_ns)) // 1000)


def does_not_restart_its_observation(patch: pytest.MonkeyPatch) -> None:
    """After it could not hear it goes on counting, as if it had heard that there was nothing."""

    def listening(before: Listening | None, is_sound: bool, now_ns: int) -> Listening:
        return before or Listening(now_ns)

    patch.setattr(decide, "listening", listening)
    patch.setattr(node_loop.NodeHealth, "_doubts", lambda self: ())


def judges_as_soon_as_it_starts(patch: pytest.MonkeyPatch) -> None:
    """Takes nodes that it has not observed yet for silent."""
    honest = heartbeats.silent_for

    def silent_for(heard: Heard, since_ns: int, now_ns: int) -> timedelta:
        return honest(heard, since_ns, now_ns) if heard.heartbeat_ns is not None else heard.duration

    patch.setattr(node_evidence, "silent_for", silent_for)
    patch.setattr(decide, "silent_for", silent_for)


# Going slowly


def believes_that_all_nodes_are_dead(patch: pytest.MonkeyPatch) -> None:
    """Does not think of being deaf itself."""
    patch.setattr(decide, "_why_isolated", lambda own, silences: "")
    honest = evidence.allowed
    patch.setattr(decide, "allowed", lambda seen, zones=(), zone="": honest(seen))


def releases_as_many_as_there_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(zones, "taken", lambda bucket: bucket)


def never_forgets_that_a_taint_was_there(patch: pytest.MonkeyPatch) -> None:
    """A node that goes a second time has used up what its pods tolerate."""
    honest = node_pods.taints_since

    def taints_since(snapshot: NodeSnapshot, memory: NodeHealthMemory) -> dict[tuple[str, str], int]:
        return {**memory.taints_since, **honest(snapshot, memory)}

    patch.setattr(decide, "taints_since", taints_since)


# Saying it


def says_it_of_pods_only_once(patch: pytest.MonkeyPatch) -> None:
    """After it has said it of the node itself; and not what its predecessor has left to be said."""
    honest = node_loop.NodeHealth.carry_out
    told: dict[node_loop.NodeHealth, dict[str, None]] = {}

    async def act(self: node_loop.NodeHealth, looked: Pass, steps: Sequence[Step]) -> bool:
        own = told.setdefault(self, {})
        own.update({step.name: None for step in steps if isinstance(step, WriteNode) and step.ready is not None})
        pods = self._pods.cache
        kept = [
            step
            for step in steps
            if not isinstance(step, MarkPod) or (pods.get(step.key) or {"spec": {}})["spec"].get("nodeName") in own
        ]
        return await honest(self, looked, kept)

    patch.setattr(node_loop.NodeHealth, "carry_out", act)


# At most one


def never_gives_the_lease_back(patch: pytest.MonkeyPatch) -> None:
    honest = actions._held_by
    patch.setattr(actions, "_held_by", lambda lease, holder: honest(lease, holder or plan.HOLDER))


def removes_pods_of_nodes_that_are_late(patch: pytest.MonkeyPatch) -> None:
    """By force, as if an operator had said that the machine is off."""
    honest = node_pods.removals

    def removals(snapshot: NodeSnapshot) -> list[RemoveDeadPod]:
        off = {
            name: replace(facts, taints=(OFF,), ready=("Unknown", "", ""))
            for name, facts in snapshot.nodes.items()
            if judge_hearing(snapshot.heard[name], 0, snapshot.now_ns) in (Hearing.LATE, Hearing.SILENT)
        }
        return honest(replace(snapshot, nodes={**snapshot.nodes, **off}))

    patch.setattr(decide, "removals", removals)


OFF = Taint(OUT_OF_SERVICE, "", "NoExecute")
