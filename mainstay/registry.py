"""The table of this build: what the frame in explain/ is given by the commands, the simulator and the tests.

    REGISTRY            who knows what about which kind, for `why`, `timeline`, `debug`, `plan` and `coupling`
    load_deciders()     how each component decides, for replay

A new workload kind has one line here, and its `why.py` (and `plan.py`, if its controller makes pods) beside its
controller. Each room is imported when a question needs it: that keeps `mainstay why` quick, and NumPy out of answers
that have nothing to do with the scheduler.
"""

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, TypeVar

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    AUTOSCALERS,
    COMPONENT_STATES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    HOLDS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PLACEMENT_POLICIES,
    PODS,
    POLICY_ROLLOUTS,
    REPLICASETS,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    SERVICE_LEVEL_OBJECTIVES,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.api.workloads import CONTROLLED
from mainstay.explain.declared import EVERYTHING, Declared, declare, declared_by
from mainstay.explain.placements import is_placement
from mainstay.explain.registry import (
    AutoscalerRoom,
    ContainerRoom,
    DebugRoom,
    EvictionRoom,
    NodeRoom,
    PendingRoom,
    PlacementPlanRoom,
    PlacementRoom,
    PlanRoom,
    RegistryEntry,
    RepairRoom,
    Rooms,
    StoryRoom,
    WhyRoom,
)
from mainstay.explain.replay import AnyName, Deciders

_Room = TypeVar("_Room")


def _load(module: str, shape: type[_Room]) -> _Room:
    """`ROOM` of a module, imported now."""
    room = import_module(module).ROOM
    if not isinstance(room, shape):
        raise AssertionError(f"{module}.ROOM is no {shape.__name__}")
    return room


def _why(noun: str) -> Callable[[], WhyRoom]:
    """controllers/<noun>/why.py."""
    return lambda: _load(f"mainstay.controllers.{noun}.why", WhyRoom)


def _plan(noun: str) -> Callable[[], PlanRoom]:
    """controllers/<noun>/plan.py."""
    return lambda: _load(f"mainstay.controllers.{noun}.plan", PlanRoom)


# Rooms that are modules.


def _debug_of_deployment() -> DebugRoom:
    from mainstay.controllers.deployment import debug

    return debug


def _nodes() -> NodeRoom:
    from mainstay.controllers.node_health import why

    return why


def _evictions() -> EvictionRoom:
    from mainstay.controllers.budget import why

    return why


def _debug_of_repair() -> RepairRoom:
    from mainstay.controllers.repair import debug

    return debug


def _autoscalers() -> AutoscalerRoom:
    from mainstay.controllers.autoscaler import debug

    return debug


def _controllers(kind: KindName) -> tuple[str, ...]:
    from mainstay.controllers.registry import CONTROLLERS

    return tuple(each.name for each in CONTROLLERS if each.kind == kind)


# The agent and the scheduler.


def _containers() -> ContainerRoom:
    from mainstay.agent.pod.why import containers

    return containers


def _placements() -> PlacementRoom:
    from mainstay.scheduler.why import pods

    return pods


def _zone_quota() -> WhyRoom:
    from mainstay.scheduler.why.zone_quota import ROOM

    return ROOM


def _story() -> StoryRoom:
    from mainstay.scheduler.why import relevance

    return relevance


def _pending() -> PendingRoom:
    from mainstay.scheduler.why import debug

    return debug


def _placement_plan() -> PlacementPlanRoom:
    from mainstay.scheduler.why import plan

    return plan


@functools.cache
def load_deciders() -> Deciders:
    from mainstay.controllers.registry import DECIDERS
    from mainstay.scheduler.why.placement import PLACEMENTS, rebuild_placement

    return Deciders(DECIDERS, [AnyName(is_placement, PLACEMENTS, rebuild_placement)])


# What each component declares to read and to write.


def _declared() -> Mapping[str, Declared]:
    from mainstay.controllers.registry import CONTROLLERS

    return {**{each.name: declared_by(each) for each in CONTROLLERS}, **_OTHERS}


_OTHERS: Final[Mapping[str, Declared]] = {
    "scheduler": declare((PODS, NODES, RESERVATIONS, ZONE_QUOTAS, HOLDS), (PLACEMENT_POLICIES,), (PODS,)),
    "node-health": declare((NODES, LEASES), (PODS,), (NODES, PODS, LEASES)),
    "repair": declare((), (RESERVATIONS, PODS, NODES, *CONTROLLED, NAMESPACES), (RESERVATIONS, PODS, LEASES)),
    "namespace": Declared({NAMESPACES.text: True, EVERYTHING: False}, (NAMESPACES.text, EVERYTHING)),
    "owner-cleanup": Declared({EVERYTHING: True}, (EVERYTHING,)),
    "pod-garbage": declare((PODS,), (NODES,), (PODS,)),
    "root-ca": declare((NAMESPACES, CONFIG_MAPS), (), (CONFIG_MAPS,)),
    "horizontal-pod-autoscaler": declare(
        (AUTOSCALERS,),
        (DEPLOYMENTS, REPLICASETS, PODS, ZONE_QUOTAS, COMPONENT_STATES),
        (AUTOSCALERS, DEPLOYMENTS, REPLICASETS),
    ),
    "agents": declare((PODS,), (NODES, CONFIG_MAPS), (PODS, NODES, LEASES)),
    # Commit points of the server: they look at what is there at the moment of the commit.
    "admission": declare((), (RESOURCE_QUOTAS, ZONE_QUOTAS, NAMESPACES), ()),
    "binding": declare((), (PODS, NODES, RESERVATIONS, ZONE_QUOTAS), (PODS, RESERVATIONS)),
    "eviction": declare((), (PODS, DISRUPTION_BUDGETS), (PODS, DISRUPTION_BUDGETS)),
    # Beside them it says in the status of quotas what is used.
    "server": declare((), (PODS, RESERVATIONS), (RESOURCE_QUOTAS, ZONE_QUOTAS)),
}
"""Those that are no controllers of one kind, which declare it themselves."""

REGISTRY: Final = Rooms(
    entries=(
        RegistryEntry(
            component="deployment",
            kind=DEPLOYMENTS,
            why=_why("deployment"),
            plan=_plan("deployment"),
            debug=_debug_of_deployment,
        ),
        RegistryEntry(component="replicaset", kind=REPLICASETS, why=_why("replicaset"), plan=_plan("replicaset")),
        RegistryEntry(component="job", kind=JOBS, why=_why("job"), plan=_plan("job")),
        RegistryEntry(component="node-health", kind=NODES, why=_why("node_health"), works_on=(NODES, PODS)),
        RegistryEntry(component="namespace", kind=NAMESPACES, why=_why("namespace"), works_on=(NAMESPACES,)),
        RegistryEntry(component="endpointslice", kind=SERVICES, why=_why("endpoints")),
        RegistryEntry(component="disruption", kind=DISRUPTION_BUDGETS, why=_why("budget")),
        RegistryEntry(component="service-level-objective", kind=SERVICE_LEVEL_OBJECTIVES, why=_why("objectives")),
        RegistryEntry(component="policy-rollout", kind=POLICY_ROLLOUTS, why=_why("policy_rollout")),
        RegistryEntry(component="horizontal-pod-autoscaler", kind=AUTOSCALERS, why=_why("autoscaler")),
        RegistryEntry(component="scheduler", kind=ZONE_QUOTAS, why=_zone_quota),
        RegistryEntry(component="owner-cleanup", why=_why("garbage")),
        RegistryEntry(component="repair", why=_why("repair"), works_on=(NODES, PODS)),
        RegistryEntry(component="pod-garbage", why=_why("pod_gc"), works_on=(PODS,)),
        RegistryEntry(component="root-ca", why=WhyRoom, works_on=(NAMESPACES,)),
    ),
    nodes=_nodes,
    containers=_containers,
    placements=_placements,
    evictions=_evictions,
    story=_story,
    pending=_pending,
    repair=_debug_of_repair,
    autoscalers=_autoscalers,
    placement_plan=_placement_plan,
    controllers=_controllers,
    declared=_declared,
)
