"""What the debug view says of repair: whether anything is left over of a workload."""

from collections.abc import Mapping

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.controllers.repair.decide import COMPLETE
from mainstay.controllers.repair.loop import LOOP
from mainstay.explain.debug.view import RepairView
from mainstay.explain.story.scope import FollowedObject


def find_repair(
    states: Mapping[str, Object], kind: KindName, who: FollowedObject, generation: int
) -> RepairView | None:
    """What repair says of a workload. None: it has said nothing yet."""
    state = states.get(LOOP.name)
    condition = pod_state.find_condition(state, COMPLETE) if state is not None else None
    if state is None or condition is None:
        return None
    workloads = (state.get("status") or {}).get("workloads") or {}
    own = workloads.get(f"{kind.kind}/{who.namespace}/{who.name}") or {}
    observed = int(own.get("observedGeneration") or 0)
    return RepairView(
        status=str(own.get(COMPLETE) or condition.get("status", "")),
        reason=str(own.get("reason") or condition.get("reason", "")),
        message=str(condition.get("message", "")),
        observed_generation=observed,
        is_current=bool(observed) and observed >= generation,
    )
