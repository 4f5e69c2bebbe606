"""The autoscaler at work in a simulated cluster: through the API, with the rights it has, and replayed."""

import json
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import AUTOSCALERS, DEFINITIONS, DEPLOYMENTS, RESOURCE_QUOTAS
from mainstay.api.pod_state import find_condition
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.controllers.autoscaler import loop
from mainstay.env import tasks
from mainstay.explain.debug.builder import debug
from mainstay.explain.debug.text import debug_text
from mainstay.explain.moment import Moment
from mainstay.explain.replay import Same, replay_all
from mainstay.explain.why.answer import WhyAnswer
from mainstay.explain.why.causes import MEANINGS, Cause
from mainstay.explain.why.dispatch import why
from mainstay.registry import REGISTRY, load_deciders
from mainstay.scenarios.autoscaler_and_lag import CORE, NAME, AutoscalerAndLag
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation

pytestmark = pytest.mark.slow

Object = dict[str, Any]
NAMESPACE = "default"


class Scaled:
    """The stage of the scenario, without faults."""

    def __init__(self, sim: Simulation) -> None:
        self.world = World(sim, journal=True)
        self.stage = AutoscalerAndLag(self.world)
        self.client: Client

    async def start(self) -> "Scaled":
        await self.world.boot()
        await self.stage.ready()
        self.world.know("tester")
        self.client = self.world.client_for("tester", self.world.sim.env("tester"))
        return self

    async def ask(self, name: str) -> WhyAnswer:
        assert self.world.journal is not None
        return await why(await Moment.now(self.world.journal), REGISTRY, AUTOSCALERS, name, NAMESPACE)

    async def until(self, replicas: int) -> None:
        async with tasks.timeout(timedelta(minutes=5)):
            while (await self.client.get(DEPLOYMENTS, NAME, NAMESPACE))["spec"]["replicas"] != replicas:
                await tasks.sleep(timedelta(seconds=1))

    async def until_said(self, kind: str, reason: str, name: str = NAME) -> Object:
        async with tasks.timeout(timedelta(minutes=5)):
            while True:
                found = await self.client.get(AUTOSCALERS, name, NAMESPACE)
                if (find_condition(found, kind) or {}).get("reason") == reason:
                    return found
                await tasks.sleep(timedelta(seconds=1))


async def test_it_scales_up_is_limited_by_a_quota_says_so_and_is_replayed(sim):
    scaled = await Scaled(sim).start()
    scaled.stage.load = 2 * CORE
    await scaled.until(4)
    quota = {"metadata": {"name": "few", "namespace": NAMESPACE}, "spec": {"hard": {"pods": "4"}}}
    await scaled.client.create(RESOURCE_QUOTAS, quota)
    scaled.stage.load = 3 * CORE
    await scaled.until(6)
    await tasks.sleep(timedelta(seconds=30))
    scaled.stage.load = 6 * CORE
    said = await scaled.until_said("ScalingLimited", "LimitedByQuota")
    journal = scaled.world.journal
    assert journal is not None
    now = await Moment.now(journal)

    view = await debug(now, REGISTRY, DEPLOYMENTS, NAME, NAMESPACE)
    answer = await why(now, REGISTRY, AUTOSCALERS, NAME, NAMESPACE)

    assert (said["status"]["desiredReplicas"], said["status"]["currentReplicas"]) == (6, 4)
    assert [(each.name, each.reason) for each in view.autoscalers] == [(NAME, "LimitedByQuota")]
    assert any("autoscaler reason" in line and "LimitedByQuota" in line for line in debug_text(view))
    assert answer.cause is Cause.QUOTA_EXCEEDED
    assert "keeps Deployment web at 6 replicas (LimitedByQuota)" in answer.sentence

    await scaled.client.delete(RESOURCE_QUOTAS, "few", NAMESPACE)
    await scaled.until(12)
    records = [each for each in journal.records() if each.component == loop.NAME]
    answers = [answer async for _, answer in replay_all(journal, records, load_deciders())]
    assert len(answers) >= 10
    assert [each for each in answers if not isinstance(each, Same)] == []


async def test_a_scale_is_not_written_over_a_version_that_was_not_read(sim, monkeypatch):
    """The record of progress that would limit the raise may have come in between."""
    scaled = await Scaled(sim).start()
    refused: list[ApiError] = []

    async def scale(self: loop.Autoscaling, autoscaler: Any, target: Any, plan: Any, read: Any) -> str:
        if not refused:
            body = {"metadata": {"annotations": {"changed": "meanwhile"}}}
            await scaled.client.patch(DEPLOYMENTS, NAME, NAMESPACE, body)
        try:
            return await original(self, autoscaler, target, plan, read)
        except ApiError as error:
            refused.append(error)
            raise

    original = loop.Autoscaling._scale
    monkeypatch.setattr(loop.Autoscaling, "_scale", scale)
    scaled.stage.load = 3 * CORE
    await scaled.until(6)

    assert [type(each).__name__ for each in refused] == ["Conflict"]


async def test_a_missing_target_is_named_in_the_condition(sim):
    scaled = await Scaled(sim).start()
    spec = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "late"}, "maxReplicas": 3}
    await scaled.client.create(AUTOSCALERS, {"metadata": {"name": "late", "namespace": NAMESPACE}, "spec": spec})
    said = await scaled.until_said("AbleToScale", "FailedGetScale", "late")

    assert 'deployments.apps "late" not found' in json.dumps(said["status"]).replace('\\"', '"')
    answer = await scaled.ask("late")
    assert (answer.cause, answer.advice) == (Cause.REFERENCE_MISSING, MEANINGS[Cause.REFERENCE_MISSING].advice)


async def test_a_target_of_a_kind_without_scale_is_no_missing_object(sim):
    scaled = await Scaled(sim).start()
    spec = {"scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "g"}, "maxReplicas": 3}
    await scaled.client.create(AUTOSCALERS, {"metadata": {"name": "g", "namespace": NAMESPACE}, "spec": spec})
    await scaled.until_said("AbleToScale", "FailedGetScale", "g")
    answer = await scaled.ask("g")

    assert (answer.cause, "must have the subresource scale" in answer.advice) == (Cause.INVALID, True)


async def test_the_advice_fits_the_metric_that_is_missing(sim):
    scaled = await Scaled(sim).start()
    wanted = {"metric": {"name": "mails"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}}
    found = {}
    for kind, metric in (("External", wanted), ("Pods", wanted), ("Resource", memory)):
        metrics = [{"type": kind, kind.lower(): metric}]
        await scaled.client.patch(AUTOSCALERS, NAME, NAMESPACE, {"spec": {"metrics": metrics}})
        await scaled.until_said("ScalingActive", f"FailedGet{kind}Metric")
        found[kind] = await scaled.ask(NAME)

    assert {kind: answer.cause for kind, answer in found.items()} == {
        "External": Cause.INVALID,
        "Pods": Cause.METRICS_MISSING,
        "Resource": Cause.METRICS_MISSING,
    }
    assert "others are not supported" in found["External"].advice
    assert "prometheus.io/scrape" in found["Pods"].advice
    assert "Set the request in every container" in found["Resource"].advice


WIDGETS = KindName("example.com", "v1", "Widget", "widgets", True)


async def test_the_scale_of_a_custom_resource_is_brought_into_its_bounds(sim):
    scaled = await Scaled(sim).start()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    version["subresources"] = {"status": {}, "scale": paths}
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    definition = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    await scaled.client.create(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": definition})
    await tasks.sleep(timedelta(seconds=5))
    widget = {"metadata": {"name": "w", "namespace": NAMESPACE}, "spec": {"replicas": 9}}
    await scaled.client.create(WIDGETS, widget)
    spec = {"scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"}, "maxReplicas": 3}
    await scaled.client.create(AUTOSCALERS, {"metadata": {"name": "w", "namespace": NAMESPACE}, "spec": spec})
    await scaled.until_said("AbleToScale", "SucceededRescale", "w")

    assert (await scaled.client.get(WIDGETS, "w", NAMESPACE))["spec"]["replicas"] == 3
