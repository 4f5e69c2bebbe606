"""How a Deployment takes part in a plan: pods of earlier templates are not those that it wants."""

from collections.abc import Sequence
from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import REPLICASETS
from mainstay.api.owners import find_controller
from mainstay.controllers.deployment import revisions
from mainstay.controllers.deployment.controller import Deployments
from mainstay.explain.registry import PlanRoom


def _is_current(deployment: Object, sets: Sequence[Object], pod: Object) -> bool:
    new, owner = revisions.new_set(deployment, sets), find_controller(pod)
    return new is not None and owner is not None and bool(new["metadata"]["uid"] == owner["uid"])


ROOM: Final = PlanRoom(
    controller=Deployments(),
    wanted=lambda deployment: int(deployment["spec"].get("replicas", 1)),
    is_current=_is_current,
    owns=REPLICASETS,
)
