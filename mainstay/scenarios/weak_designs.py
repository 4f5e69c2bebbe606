"""The designs that the worked examples warn of, planted into the components of a run (`mainstay sim run --bug`).

Production code has no switch for them: each function replaces attributes from outside, in the process of the run, and
the run must fail. Paths are given as texts, so that this module opens no door into rooms that are not its own; a
path that is not there any more is an error at once. Other bugs that the scenarios find are in tests/twins/.
"""

from types import SimpleNamespace

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.sim.narration.steps import BugPatcher


def replaces_what_is_unknown_at_once(patch: BugPatcher) -> None:
    """Takes a pod on a silent node for one that is gone. (R5)"""

    def is_active(pod: Object) -> bool:
        return pod_state.is_active(pod) and (pod_state.find_condition(pod, "Ready") or {}).get("status") != "Unknown"

    hasty = SimpleNamespace(**{**vars(pod_state), "is_active": is_active})
    patch.setattr("mainstay.controllers.replicaset.controller.pod_state", hasty)
    patch.setattr("mainstay.controllers.pods.slots.pod_state", hasty)
