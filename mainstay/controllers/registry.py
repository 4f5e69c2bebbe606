"""The table of all controllers, by name. A line for each; the order does not matter to them."""

from typing import Final

from mainstay.api.holds import SCHEDULER
from mainstay.controllers.budget.controller import DisruptionBudgets
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.endpoints.endpoints import Endpoints
from mainstay.controllers.endpoints.serving import Serving
from mainstay.controllers.endpoints.slices import EndpointSlices
from mainstay.controllers.garbage.loop import OwnerCleanup
from mainstay.controllers.holds.controller import Holds
from mainstay.controllers.job.controller import Jobs
from mainstay.controllers.namespace.loop import NamespaceDeletion
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.pod_gc.loop import PodGarbage
from mainstay.controllers.progress.controller import DeploymentProgress, JobProgress, ReplicaSetProgress
from mainstay.controllers.repair.loop import LOOP as REPAIR
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.controllers.service_account.controller import ServiceAccounts, root_authorities
from mainstay.loop.controller import Controller
from mainstay.loop.periodic import OwnLoop

_WORKING: Final[tuple[Controller, ...]] = (
    Deployments(),
    ReplicaSets(),
    Jobs(),
    DisruptionBudgets(),
    ServiceAccounts(),
    EndpointSlices(),
    Endpoints(),
    Serving(),
    DeploymentProgress(),
    ReplicaSetProgress(),
    JobProgress(),
)

OWN_LOOPS: Final[tuple[OwnLoop, ...]] = (
    NODE_HEALTH,
    REPAIR,
    OwnLoop("namespace", NamespaceDeletion),
    OwnLoop("owner-cleanup", OwnerCleanup),
    OwnLoop("root-ca", root_authorities),
    OwnLoop("pod-garbage", PodGarbage),
)

CAN_BE_HELD: Final = frozenset(
    {*(each.name for each in _WORKING), *(each.name for each in OWN_LOOPS), Holds.name, SCHEDULER}
)
"""What a Hold of a controller may name, of ours."""

CONTROLLERS: Final[tuple[Controller, ...]] = (*_WORKING, Holds(CAN_BE_HELD))
