"""The table of all controllers, by name. Adding one is a line here. The order does not matter to them."""

from collections.abc import Mapping
from typing import Final

from mainstay.api.holds import SCHEDULER
from mainstay.controllers.autoscaler import loop as autoscaler
from mainstay.controllers.budget.controller import DisruptionBudgets
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.endpoints.endpoints import Endpoints
from mainstay.controllers.endpoints.serving import Serving
from mainstay.controllers.endpoints.slices import EndpointSlices
from mainstay.controllers.garbage import loop as garbage
from mainstay.controllers.holds.controller import HoldController
from mainstay.controllers.job.controller import Jobs
from mainstay.controllers.namespace import loop as namespace
from mainstay.controllers.node_health import loop as node_health
from mainstay.controllers.objectives.controller import ServiceLevelObjectives
from mainstay.controllers.pod_gc import loop as pod_gc
from mainstay.controllers.policy_rollout.controller import PolicyRollouts
from mainstay.controllers.progress.controller import DEPLOYMENT_PROGRESS, JOB_PROGRESS, REPLICASET_PROGRESS
from mainstay.controllers.repair import loop as repair
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.controllers.service_account.controller import ROOT_CA, ServiceAccounts
from mainstay.loop.controller import Controller
from mainstay.loop.decider import Decider, decide_per_key
from mainstay.loop.kernel import LoopSpec

_WORKING: Final[tuple[Controller, ...]] = (
    Deployments(),
    ReplicaSets(),
    Jobs(),
    DisruptionBudgets(),
    ServiceAccounts(),
    EndpointSlices(),
    Endpoints(),
    Serving(),
    DEPLOYMENT_PROGRESS,
    REPLICASET_PROGRESS,
    JOB_PROGRESS,
    ServiceLevelObjectives(),
    PolicyRollouts(),
)

LOOPS: Final[tuple[LoopSpec, ...]] = (
    node_health.LOOP,
    repair.LOOP,
    namespace.LOOP,
    garbage.LOOP,
    ROOT_CA,
    pod_gc.LOOP,
    autoscaler.LOOP,
)
"""Those that decide otherwise than per key on caches (loop/kernel.py)."""

CAN_BE_HELD: Final = frozenset(
    {*(each.name for each in _WORKING), *(each.name for each in LOOPS), HoldController.name, SCHEDULER}
)
"""What a Hold of a controller may name, of ours."""

CONTROLLERS: Final[tuple[Controller, ...]] = (*_WORKING, HoldController(CAN_BE_HELD))

DECIDERS: Final[Mapping[str, Decider]] = {
    **{each.name: decide_per_key(each) for each in CONTROLLERS},
    **{each.name: each.decider for each in LOOPS if each.decider is not None},
}
"""By the component of their records, how they decide: for replay."""
