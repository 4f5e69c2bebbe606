"""How a ReplicaSet takes part in a plan."""

from typing import Final

from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.explain.registry import PlanRoom

ROOM: Final = PlanRoom(controller=ReplicaSets(), wanted=lambda replica_set: int(replica_set["spec"].get("replicas", 1)))
