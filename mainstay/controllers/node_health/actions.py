"""Carrying out what was decided about nodes. Each step finds its own earlier work, and may stop anywhere.

A Node is written in two parts, its taints and its status. On the way down the taints come first, with the record that
keeps what the node has said; on the way back the status does, from that record.

Replacing at-most-one pods is the one step with several writes that depend on each other (agent/node/node.py has the
other side): take the Lease, on condition that it is as we have observed it; remove the pods; give the Lease back.
A leader that finds the Lease held by `HOLDER` goes on from there.
"""

from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_names import LEASES, NODES, PODS
from mainstay.api.node_health import HEALTH, LEASE_NAMESPACE, NO_RECORD, SUSPECT, HealthState, render_record
from mainstay.api.object_key import ObjectKey
from mainstay.api.taints import NO_EXECUTE
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, Conflict, Fenced, NotFound
from mainstay.controllers.node_health.plan import HOLDER, Evict, MarkPod, RemoveDeadPod, ReplacePods, WriteNode
from mainstay.env import Clock
from mainstay.loop.act import OwnWrite
from mainstay.loop.periodic import Writes

TOLD: Final = "DeletionByTaintManager"
"""The reason of the condition `DisruptionTarget`, as Kubernetes has it: Jobs do not count such an end as a failure."""


class Actions:
    """Raises `ApiError`, but not when another client was faster: there will be another pass."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def write_node(self, step: WriteNode, node: Object, write: Writes) -> list[OwnWrite]:
        """`node` is the Node at the version that the step is about."""
        if step.lease is not None and not await self._is_lease_at(step.name, step.lease):
            return []  # It is alive after all, and we shall hear of it.
        parts = [self._build_status(step), self._build_taints(step, node)]
        if step.state is not HealthState.HEALTHY:
            parts.reverse()
        wrote, version = [], step.version
        for body, subresource in parts:
            if body is None:
                continue
            metadata = {**body.pop("metadata", {}), "uid": step.uid, "resourceVersion": version}
            kind = PatchType.STRATEGIC if subresource else PatchType.MERGE
            try:
                answer = await self._client.patch(
                    NODES,
                    step.name,
                    "",
                    {**body, "metadata": metadata},
                    type=kind,
                    subresource=subresource,
                    write=write(),
                )
            except (Conflict, NotFound) as error:
                _let_pass(error)
                break
            version = answer["metadata"]["resourceVersion"]
            wrote.append(OwnWrite(NODES, ObjectKey("", step.name), int(version)))
        return wrote

    def _build_taints(self, step: WriteNode, node: Object) -> tuple[dict[str, Any] | None, str]:
        if not step.add and not step.remove and step.record is None:
            return None, ""
        now = times.format_time(self._clock.wall())
        body: dict[str, Any] = {}
        if step.add or step.remove:
            gone = {(taint.key, taint.effect) for taint in (*step.remove, *step.add)}
            taints = [
                each
                for each in (node.get("spec") or {}).get("taints") or ()
                if (each.get("key"), each.get("effect")) not in gone
            ]
            for taint in step.add:
                added = {"timeAdded": now} if taint.effect == NO_EXECUTE else {}
                taints.append({"key": taint.key, "effect": taint.effect, **added})
            body["spec"] = {"taints": taints or None}
        if step.record is not None:
            record = step.record if step.record.since else replace(step.record, since=now)
            text = None if step.record == NO_RECORD else render_record(record)
            body["metadata"] = {"annotations": {HEALTH: text}}
        return body, ""

    def _build_status(self, step: WriteNode) -> tuple[dict[str, Any] | None, str]:
        now, conditions = times.format_time(self._clock.wall()), []
        if step.ready is not None:
            status, reason, message = step.ready
            conditions.append(_condition("Ready", status, reason, message, now))
        if step.is_suspect is not None:
            said = ("HeartbeatLate", "the heartbeat of the node is late") if step.is_suspect else ("HeartbeatSeen", "")
            conditions.append(_condition(SUSPECT, str(step.is_suspect), *said, now))
        return ({"status": {"conditions": conditions}}, "status") if conditions else (None, "status")

    async def mark_pod(self, step: MarkPod, write: Writes) -> list[OwnWrite]:
        now = times.format_time(self._clock.wall())
        return await self._say_of_pod(step, _condition("Ready", step.status, "NodeNotReady", step.message, now), write)

    async def evict(self, step: Evict, write: Writes) -> list[OwnWrite]:
        now = times.format_time(self._clock.wall())
        told = _condition("DisruptionTarget", "True", TOLD, step.message, now)
        wrote = await self._say_of_pod(step, told, write)
        if wrote:
            with suppress(NotFound):
                try:
                    await self._client.delete(PODS, step.key.name, step.key.namespace, uid=step.uid, write=write())
                except Conflict as error:
                    _let_pass(error)
        return wrote

    async def remove(self, step: RemoveDeadPod, write: Writes) -> None:
        """By force: no agent is there to end it in order."""
        with suppress(NotFound):
            try:
                await self._client.delete(
                    PODS, step.key.name, step.key.namespace, uid=step.uid, grace_s=0, write=write()
                )
            except Conflict as error:
                _let_pass(error)

    async def replace(self, step: ReplacePods, write: Writes) -> None:
        lease = await self._taken(step, write)
        if lease is None:
            return
        for pod in step.pods:
            await self.remove(pod, write)
        try:
            if step.revision:
                await self._client.replace(LEASES, _held_by(lease, ""), write=write())
            else:
                version = lease["metadata"]["resourceVersion"]
                await self._client.delete(LEASES, step.node, LEASE_NAMESPACE, resource_version=version, write=write())
        except (Conflict, NotFound) as error:
            _let_pass(error)

    async def _taken(self, step: ReplacePods, write: Writes) -> Object | None:
        """The Lease, held by us; None: another client was faster."""
        try:
            if not step.revision:
                metadata = {"name": step.node, "namespace": LEASE_NAMESPACE}
                return await self._client.create(LEASES, _held_by({"metadata": metadata}, HOLDER), write=write())
            lease = await self._client.get(LEASES, step.node, LEASE_NAMESPACE)
            if int(lease["metadata"]["resourceVersion"]) != step.revision:
                return None
            if step.is_ours:
                return lease
            # Refused if it is renewed meanwhile: it has the resource version that was observed.
            return await self._client.replace(LEASES, _held_by(lease, HOLDER), write=write())
        except (AlreadyExists, Conflict, NotFound) as error:
            _let_pass(error)
            return None

    async def _is_lease_at(self, node: str, revision: int) -> bool:
        try:
            lease = await self._client.get(LEASES, node, LEASE_NAMESPACE)
        except NotFound:
            return revision == 0
        return int(lease["metadata"]["resourceVersion"]) == revision

    async def _say_of_pod(self, step: MarkPod | Evict, condition: Object, write: Writes) -> list[OwnWrite]:
        body = {"metadata": {"uid": step.uid}, "status": {"conditions": [condition]}}
        try:
            answer = await self._client.patch(
                PODS,
                step.key.name,
                step.key.namespace,
                body,
                type=PatchType.STRATEGIC,
                subresource="status",
                write=write(),
            )
        except (Conflict, NotFound) as error:
            _let_pass(error)
            return []
        return [OwnWrite(PODS, step.key, int(answer["metadata"]["resourceVersion"]))]


def _let_pass(error: Exception) -> None:
    """A refusal is no failure, unless it says that we are not in office any more."""
    if isinstance(error, Fenced):
        raise error


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}


def _held_by(lease: Object, holder: str) -> Object:
    return {**lease, "spec": {**(lease.get("spec") or {}), "holderIdentity": holder}}
