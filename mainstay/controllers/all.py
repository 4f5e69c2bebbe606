"""The table of all controllers, by name. A line for each; the order does not matter to them."""

from typing import Final

from mainstay.api.holds import SCHEDULER
from mainstay.controllers.deployment import Deployments
from mainstay.controllers.disruption_budget import DisruptionBudgets
from mainstay.controllers.endpoint_slice import EndpointSlices
from mainstay.controllers.endpoints import Endpoints
from mainstay.controllers.holds import Holds
from mainstay.controllers.job import Jobs
from mainstay.controllers.namespace import NamespaceDeletion
from mainstay.controllers.node_loop import LOOP as NODE_HEALTH
from mainstay.controllers.owner_cleanup.cleaning import OwnerCleanup
from mainstay.controllers.pod_garbage import PodGarbage
from mainstay.controllers.progress import DeploymentProgress, JobProgress, ReplicaSetProgress
from mainstay.controllers.repair_loop import LOOP as REPAIR
from mainstay.controllers.replicaset import ReplicaSets
from mainstay.controllers.service_account import ServiceAccounts, root_authorities
from mainstay.controllers.serving import Serving
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
