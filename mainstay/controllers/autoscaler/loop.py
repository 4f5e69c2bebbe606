"""Looks at each HorizontalPodAutoscaler every `EVERY`, and scales its target through the subresource `scale`.

A look reads everything from the server: the autoscaler, its target, the pods that the target selects, what they use
(`metrics.k8s.io`, which the API server asks of the agents), and what they say of the metrics that the autoscaler names
(`custom.metrics.k8s.io`, which the agents ask of the pods). Then it decides (decide.py). The target may be of any kind
that has a scale, so there can be no cache of it.

A scale is written only over the very version of the target that was read. The progress record is part of that version,
so no raise is ever committed over a record that limits it, however late the write arrives; if the target has changed
meanwhile, the look is repeated after `AGAIN_AFTER`.

What is remembered between looks is lost with the leader; see `AutoscalerMemory`.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

import msgspec

from mainstay.api import labels, times
from mainstay.api.feature_gates import AUTOSCALER_READS_PROGRESS
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    AUTOSCALERS,
    COMPONENT_STATES,
    DEPLOYMENTS,
    PODS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    ZONE_QUOTAS,
)
from mainstay.api.kinds.metrics import POD_CUSTOM_METRICS, POD_METRICS
from mainstay.api.object_key import ObjectKey
from mainstay.api.pod_state import is_leaving
from mainstay.api.progress import FIELD
from mainstay.api.quantity import parse
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError, Conflict, Fenced, NotFound, Throttled, Unavailable
from mainstay.client.indexes import NAMESPACE
from mainstay.client.served_kinds import served_kinds
from mainstay.controllers.autoscaler.decide import ScalePlan, build_status, decide, is_up_to_date, list_events
from mainstay.controllers.autoscaler.limits import ZONE_QUOTA_EXCEEDED
from mainstay.controllers.autoscaler.observation import (
    NO_MEMORY,
    RESCALED,
    AutoscalerInput,
    AutoscalerMemory,
    PodMetricValues,
    ScaleTarget,
    ScaleUnknown,
    UsageSample,
    identify_metric,
)
from mainstay.controllers.autoscaler.scaling_rules import remember_step
from mainstay.journal.record import ViewPart, micros
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.events import InvolvedObject
from mainstay.loop.fresh_read import FreshRead, FreshReadLoop
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.queue.items import GONE, Item, Outcome, WakeAfter
from mainstay.loop.record import Decided, describe_write
from mainstay.loop.view import View

NAME: Final = "horizontal-pod-autoscaler"
EVERY: Final = timedelta(seconds=15)
AGAIN_AFTER: Final = timedelta(seconds=1)
WORKERS: Final = 4
_RECORDED: Final = (DEPLOYMENTS, REPLICASETS)
"""Kinds with a scale whose progress is recorded. They are read whole; of all others only the scale."""
_KNOWN: Final = {(kind.group, kind.kind): kind for kind in (*_RECORDED, STATEFUL_SETS, REPLICATION_CONTROLLERS)}


class Autoscaling(FreshReadLoop[ObjectKey]):
    """`run` until cancelled."""

    name = NAME

    def __init__(self, context: LoopContext) -> None:
        super().__init__(context)
        self._client = context.client
        self._reads_progress = AUTOSCALER_READS_PROGRESS in context.gates
        self._informer = context.informers.get(AUTOSCALERS, indexes=(NAMESPACE,))
        self._memories: dict[ObjectKey, tuple[str, AutoscalerMemory]] = {}
        """With the uid of the autoscaler: another one of that name begins without."""

    async def run(self) -> None:
        """Raises `Deposed` when the term is over, `CacheStopped` when the cache is not fed any more."""
        await self.work(WORKERS, [(self._informer, self._changed)])

    def _changed(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is None or new is None or old.object().get("spec") != new.object().get("spec"):
            self.queue.add(change.key, tenant=change.key.namespace, woken_by=change.revision)

    async def look(self, item: Item[ObjectKey]) -> Outcome:
        key = item.key
        try:
            autoscaler = await self._client.get(AUTOSCALERS, key.name, key.namespace)
        except NotFound:
            autoscaler = {}
        if not autoscaler or is_leaving(autoscaler):
            self._memories.pop(key, None)
            return GONE
        known = await self._observe(key, autoscaler)
        pods, view = await self._list_pods(known)
        plan = decide(known, pods)
        self._memories[key] = (autoscaler["metadata"]["uid"], plan.memory)
        target = known.target
        if plan.replicas is not None and target is not None:
            try:
                outcome = await self._scale(autoscaler, target, plan, FreshRead(known, view, plan.replicas))
            except Conflict:
                return WakeAfter(AGAIN_AFTER)  # The target has changed: what was decided may not hold any more.
            known = replace(known, outcome=outcome)
            if outcome == RESCALED:
                memory = remember_step(known, plan.memory, target.replicas, plan.replicas)
                self._memories[key] = (autoscaler["metadata"]["uid"], memory)
        self._tell(autoscaler, known, plan)
        await self._say(autoscaler, known, plan, view)
        return WakeAfter(EVERY)

    # Observing.

    async def _observe(self, key: ObjectKey, autoscaler: Object) -> AutoscalerInput:
        metadata = autoscaler["metadata"]
        uid, memory = self._memories.get(key, ("", NO_MEMORY))
        known = AutoscalerInput(
            micros(self.kernel.clock.wall()),
            autoscaler["spec"],
            autoscaler.get("status") or {},
            int(metadata.get("generation") or 0),
            rivals=self._find_rivals(key, autoscaler["spec"]["scaleTargetRef"]),
            memory=memory if uid == metadata["uid"] else NO_MEMORY,
            reads_progress=self._reads_progress,
        )
        target = await self._read_target(key.namespace, autoscaler["spec"]["scaleTargetRef"])
        if isinstance(target, ScaleUnknown):
            return replace(known, unknown=target)
        known = replace(known, target=target)
        if target.selector and target.replicas:
            known = await self._with_samples(known, key.namespace, target.selector)
            known = await self._with_pod_metrics(known, key.namespace, target.selector)
        limit = (target.progress or {}).get("limitedBy") or {}
        return await self._with_quotas(known, key.namespace) if limit.get("cause") == ZONE_QUOTA_EXCEEDED else known

    def _find_rivals(self, key: ObjectKey, reference: Object) -> tuple[str, ...]:
        cache, found = self._informer.cache, []
        for other in cache.by(NAMESPACE.name, key.namespace):
            obj = cache.get(other)
            if other == key or obj is None or is_leaving(obj):
                continue
            if _identify(obj["spec"]["scaleTargetRef"]) == _identify(reference):
                found.append(other.name)
        return tuple(sorted(found))

    async def _read_target(self, namespace: str, reference: Object) -> ScaleTarget | ScaleUnknown:
        group, kind_name, name = _identify(reference)
        try:
            kind = _KNOWN.get((group, kind_name)) or (await served_kinds(self._client)).find(group, kind_name)
            if kind is None:
                return ScaleUnknown(f"no kind {kind_name} is served in group {group or 'core'}")
            if kind in _RECORDED:
                return _read_workload(kind, await self._client.get(kind, name, namespace))
            return _read_scale(kind, name, await self._client.get(kind, name, namespace, subresource="scale"))
        except (Fenced, Throttled, Unavailable):
            raise
        except ApiError as error:
            return ScaleUnknown(str(error))

    async def _with_samples(self, known: AutoscalerInput, namespace: str, selector: str) -> AutoscalerInput:
        try:
            page = await self._client.list(POD_METRICS.reference, namespace, labels=selector)
        except (Fenced, Throttled):
            raise
        except ApiError as error:
            return replace(known, samples_problem=str(error))
        return replace(known, samples={each["metadata"]["name"]: _read_sample(each) for each in page.items})

    async def _with_pod_metrics(self, known: AutoscalerInput, namespace: str, selector: str) -> AutoscalerInput:
        found: dict[str, PodMetricValues] = {}
        for metric in known.spec.get("metrics") or ():
            if metric.get("type") == "Pods" and identify_metric(metric) not in found:
                found[identify_metric(metric)] = await self._read_metric(metric["pods"]["metric"], namespace, selector)
        return replace(known, pod_metrics=found) if found else known

    async def _read_metric(self, metric: Object, namespace: str, selector: str) -> PodMetricValues:
        name = quote(metric["name"], safe="")
        path = f"/apis/{POD_CUSTOM_METRICS.group_version}/namespaces/{namespace}/pods/*/{name}"
        query = {"labelSelector": selector}
        if metric.get("selector"):
            query["metricLabelSelector"] = str(labels.from_object(metric["selector"]))
        try:
            answer = await self._client.request("GET", path, query=query)
        except (Fenced, Throttled):
            raise
        except ApiError as error:
            return PodMetricValues(problem=str(error))
        items = msgspec.json.decode(answer.body).get("items") or ()
        return PodMetricValues({each["describedObject"]["name"]: parse(each["value"]).nano for each in items})

    async def _with_quotas(self, known: AutoscalerInput, namespace: str) -> AutoscalerInput:
        """What tells a quota that is exhausted from one whose change was not seen yet."""
        quotas = (await self._client.list(ZONE_QUOTAS, namespace)).items
        states = (await self._client.list(COMPONENT_STATES)).items
        latest = max((int(each["metadata"]["resourceVersion"]) for each in quotas), default=0)
        seen = {}
        for each in states:
            revisions = (each.get("status") or {}).get("revisions") or {}
            if ZONE_QUOTAS.text in revisions:
                seen[each["metadata"]["name"]] = int(revisions[ZONE_QUOTAS.text])
        return replace(known, quota_revision=latest, seen_quotas=seen)

    async def _list_pods(self, known: AutoscalerInput) -> tuple[list[Object], tuple[ViewPart, ...]]:
        target = known.target
        if target is None or not target.selector:
            return [], ()
        page = await self._client.list(PODS, target.key.namespace, labels=target.selector)
        return page.items, (ViewPart(PODS.text, int(page.revision), target.key.namespace, target.selector),)

    # Acting.

    async def _scale(self, autoscaler: Object, target: ScaleTarget, plan: ScalePlan, read: FreshRead) -> str:
        """The outcome. Raises `Conflict` if the target is not as it was read."""
        body = {"metadata": {"resourceVersion": target.version}, "spec": {"replicas": plan.replicas}}
        outcome = "the target is gone"

        async def patch(write: Any) -> Object:
            nonlocal outcome
            answer = await self._client.patch(
                target.kind, target.key.name, target.key.namespace, body, subresource="scale", write=write
            )
            outcome = RESCALED
            return answer

        try:
            await self.write(
                "patch",
                target.kind,
                target.key,
                patch,
                plan.reason,
                about=(AUTOSCALERS, autoscaler),
                read=read,
                subresource="scale",
            )
        except (Fenced, Throttled, Unavailable, Conflict):
            raise
        except ApiError as error:
            return str(error)
        return outcome

    def _tell(self, autoscaler: Object, known: AutoscalerInput, plan: ScalePlan) -> None:
        if self.kernel.events is None:
            return
        about = InvolvedObject.of(AUTOSCALERS, autoscaler)
        for each in list_events(known, plan):
            self.kernel.events.tell(about, each.reason, each.message, is_warning=each.is_warning)

    async def _say(
        self, autoscaler: Object, known: AutoscalerInput, plan: ScalePlan, view: tuple[ViewPart, ...]
    ) -> None:
        metadata, status = autoscaler["metadata"], build_status(known, plan)
        if is_up_to_date(known.status, status):
            return
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        key = ObjectKey(metadata["namespace"], metadata["name"])
        await self.write(
            "patch",
            AUTOSCALERS,
            key,
            lambda write: self._client.patch(
                AUTOSCALERS, key.name, key.namespace, body, subresource="status", write=write
            ),
            _explain(plan),
            about=(AUTOSCALERS, autoscaler),
            read=FreshRead(known, view, status),
            subresource="status",
        )


def _explain(plan: ScalePlan) -> str:
    """Why the status is as it is: the condition that says most."""
    failed = [each for each in plan.conditions if each.status == "False" and each.type != "ScalingLimited"]
    limited = [each for each in plan.conditions if each.status == "True" and each.type == "ScalingLimited"]
    if plan.replicas is not None:
        return f"rescaled to {plan.replicas}: {plan.reason}"
    said = [*failed, *limited]
    return f"{said[0].reason}: {said[0].message}" if said else "at the size that its metrics justify"


# Reading.


def _identify(reference: Object) -> tuple[str, str, str]:
    group, _, _ = str(reference.get("apiVersion") or "").rpartition("/")
    return group, str(reference["kind"]), str(reference["name"])


def _read_workload(kind: KindName, obj: Object) -> ScaleTarget:
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
    return ScaleTarget(
        kind,
        ObjectKey(metadata["namespace"], metadata["name"]),
        metadata["resourceVersion"],
        replicas=int(spec.get("replicas", 1)),
        replicas_seen=int(status.get("replicas") or 0),
        selector=str(labels.from_object(spec["selector"])),
        generation=int(metadata.get("generation") or 0),
        observed_generation=int(status.get("observedGeneration") or 0),
        has_record=True,
        progress=status.get(FIELD),
    )


def _read_scale(kind: KindName, name: str, scale: Object) -> ScaleTarget:
    metadata, spec, status = scale["metadata"], scale.get("spec") or {}, scale.get("status") or {}
    return ScaleTarget(
        kind,
        ObjectKey(metadata.get("namespace", ""), name),
        metadata["resourceVersion"],
        replicas=int(spec.get("replicas") or 0),
        replicas_seen=int(status.get("replicas") or 0),
        selector=str(status.get("selector") or ""),
    )


def _read_sample(metrics: Object) -> UsageSample:
    containers = {
        each["name"]: {resource: parse(text).nano for resource, text in sorted(each["usage"].items())}
        for each in metrics.get("containers") or ()
    }
    window = times.parse_duration(metrics["window"]) // timedelta(microseconds=1)
    return UsageSample(micros(times.parse_time(metrics["timestamp"])), window, containers)


# Replay.


def _decide(view: View, known: AutoscalerInput) -> list[Decided]:
    """The writes of one look, from what it read."""
    # A rebuilt view knows kinds by their texts alone.
    pods = [pod for kind in view.kinds if kind.text == PODS.text for pod in view.all(kind)]
    plan = decide(known, pods)
    actions = [describe_write("patch", AUTOSCALERS, view.subject, "status", build_status(known, plan))]
    if plan.replicas is not None and known.target is not None:
        actions.append(describe_write("patch", known.target.kind, known.target.key, "scale", plan.replicas))
    return [Decided((each,)) for each in actions]


DECIDER: Final = Decider(NAME, Schedule.FRESH_READ, (), AutoscalerInput, _decide)
LOOP: Final = LoopSpec(NAME, Autoscaling, DECIDER)
