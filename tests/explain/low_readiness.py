"""The autoscaler of the text, as a controller of a user: adds replicas when too few are ready for too long.

Mainstay's own (controllers/autoscaler/) has no such rule. Here it is one more writer of the desired state, whose reason
`debug`, `timeline` and `blame` must find.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.api.object_key import ObjectKey
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Decision, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios import _risk

AUTOSCALER = "autoscaler"


@dataclass(frozen=True, slots=True)
class Since:
    at: datetime


class LowReadinessScaler(Controller):
    """Adds two replicas when some have not been ready for a while. Knows nothing of quotas."""

    name = AUTOSCALER
    kind = DEPLOYMENTS
    writes = (DEPLOYMENTS,)

    patience = timedelta(seconds=6)
    replicas_max = 10

    def decide(self, view: View, key: ObjectKey, memory: Since | None) -> Decision:
        found = view.get(DEPLOYMENTS, key)
        if found is None or key.name != _risk.NAME:
            return Decision()
        wanted = found["spec"]["replicas"]
        ready = (found.get("status") or {}).get("readyReplicas") or 0
        if ready >= wanted or wanted >= self.replicas_max:
            return Decision()
        since = memory or Since(view.now)
        if view.now < since.at + self.patience:
            return Decision(result=WakeAt(since.at + self.patience, "LowReadyReplicas"), memory=since)
        more = min(wanted + 2, self.replicas_max)
        patch = Patch(
            DEPLOYMENTS, key, found["metadata"]["uid"], {"spec": {"replicas": more}}, freshness=Freshness.MAY_BE_STALE
        )
        return Decision((patch,), reasons=(f"LowReadyReplicas: {ready} of {wanted} are ready",))
