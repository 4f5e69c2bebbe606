"""What the debug view of a workload says of its autoscalers. (SPEC O5)"""

from collections.abc import Mapping, Sequence
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.pod_state import find_condition
from mainstay.controllers.autoscaler.decide import ACTIVE
from mainstay.controllers.autoscaler.scaling_rules import ABLE, LIMITED
from mainstay.explain.debug.view import AutoscalerView
from mainstay.explain.story.scope import FollowedObject


def find_autoscalers(autoscalers: Sequence[Object], kind: KindName, who: FollowedObject) -> list[AutoscalerView]:
    """Those of a workload."""
    found = []
    for each in autoscalers:
        metadata, reference = each["metadata"], each["spec"]["scaleTargetRef"]
        group, _, _ = str(reference.get("apiVersion") or "").rpartition("/")
        target = (metadata.get("namespace"), group, reference["kind"], reference["name"])
        if target == (who.namespace, kind.group, kind.kind, who.name):
            found.append(_describe(each))
    return found


def _describe(autoscaler: Object) -> AutoscalerView:
    status, said = autoscaler.get("status") or {}, find_decisive(autoscaler)
    return AutoscalerView(
        name=autoscaler["metadata"]["name"],
        current=int(status.get("currentReplicas") or 0),
        desired=int(status.get("desiredReplicas") or 0),
        reason=str(said.get("reason") or "NotObservedYet"),
        message=str(said.get("message") or ""),
    )


def find_decisive(autoscaler: Object) -> Mapping[str, Any]:
    """The condition that says most of an autoscaler: a failure, then what limits it, then what it goes by."""
    able, active, limited = (find_condition(autoscaler, name) or {} for name in (ABLE, ACTIVE, LIMITED))
    for each, bad in ((able, "False"), (active, "False"), (limited, "True")):
        if each.get("status") == bad:
            return each
    return active or able
