"""What a plan says, as values: what `mainstay plan -o json` prints. Fields are only ever added."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from mainstay.explain.answer_part import AnswerPart
from mainstay.explain.cures.values import TriedCure
from mainstay.explain.plan.quotas import QuotaUse
from mainstay.explain.why.answer import Verdict

API_VERSION: Final = "mainstay.dev/v1"
SIBLINGS_MAX: Final = 50
"""So many of the pods that wait for the same are tried with each cure."""


class ObjectPlan(AnswerPart, frozen=True, kw_only=True):
    """What would become of one object that was given."""

    kind: str
    namespace: str = ""
    name: str
    where: str = ""
    action: str
    """created, configured, unchanged or refused."""
    refusal: str = ""


class WaitingPods(AnswerPart, frozen=True, kw_only=True):
    """Some pods of a workload that no node would take, for the same reasons."""

    count: int
    cause: str
    """As `why` calls it."""
    text: str
    message: str
    """As the scheduler says it: all nodes, by reason."""
    is_blocked: bool = False
    """Nothing that the cluster does by itself would help."""
    cures: tuple[TriedCure, ...] = ()


class RefusedPods(AnswerPart, frozen=True, kw_only=True):
    """Pods that would not even be made."""

    count: int
    text: str
    cures: tuple[TriedCure, ...] = ()


class RemovedPods(AnswerPart, frozen=True, kw_only=True):
    """Pods that are there and would go."""

    why: str
    nodes: Mapping[str, int] = {}
    pods: tuple[str, ...] = ()


class PlannedStep(AnswerPart, frozen=True, kw_only=True):
    after_s: float
    text: str


class WorkloadPlan(AnswerPart, frozen=True, kw_only=True):
    kind: str
    namespace: str = ""
    name: str
    wanted: int
    running: int
    """With a node in the end, and made from what was applied."""
    running_least: int
    running_most: int
    """In other orders of what happens at the same time. The same as `running`: it does not depend on that."""
    kept: int = 0
    """Of these, those that are there already."""
    old: int = 0
    """Those of earlier templates that would still be there."""
    nodes: Mapping[str, int] = {}
    zones: Mapping[str, int] = {}
    waits: tuple[WaitingPods, ...] = ()
    refused: tuple[RefusedPods, ...] = ()
    removed: tuple[RemovedPods, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def waiting(self) -> int:
        return sum(each.count for each in self.waits)

    @property
    def is_certain(self) -> bool:
        return self.running_least == self.running_most


class Other(AnswerPart, frozen=True, kw_only=True):
    """A pod of another workload for which something would be different."""

    pod: str
    text: str


class PlanAnswer(AnswerPart, frozen=True, kw_only=True):
    """Encodable: what `-o json` prints."""

    verdict: Verdict
    sentence: str
    revision: int
    at: datetime
    objects: tuple[ObjectPlan, ...] = ()
    workloads: tuple[WorkloadPlan, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    """Of those of which more or less would be used, or which would be others."""
    others: tuple[Other, ...] = ()
    others_count: int = 0
    notes: tuple[str, ...] = ()

    def as_object(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Plan", **found}
