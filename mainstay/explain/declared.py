"""What each component declares to read and to write, by kind: the static half of the coupling map. (SPEC O6)

Controllers declare it themselves, and cannot read anything else (loop/view.py). Loops of their own, the scheduler,
agents and the server's commit points are listed here; a test compares the list with what they write in a simulated
cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
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
    REPLICASETS,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    ZONE_QUOTAS,
)
from mainstay.controllers.registry import CONTROLLERS
from mainstay.loop.controller import Controller

EVERYTHING: Final = "*"
"""Whatever there is: the clean-up behind owners and namespaces."""


@dataclass(frozen=True, slots=True)
class Declared:
    reads: Mapping[str, bool]
    """By kind: whether a change of it wakes the component."""
    writes: tuple[str, ...]


def declared_of(component: str) -> Declared | None:
    """By its name, or by that of an instance: `scheduler-1` is a `scheduler`."""
    if component in DECLARED:
        return DECLARED[component]
    base, _, number = component.rpartition("-")
    return DECLARED.get(base) if number.isdigit() else None


def _controller(controller: Controller) -> Declared:
    reads = {controller.kind.text: True}
    for each in controller.reads:
        reads[each.kind.text] = reads.get(each.kind.text, False) or bool(each.wakes or each.wakes_among)
    writes = dict.fromkeys((controller.kind.text, *(kind.text for kind in controller.writes)))
    return Declared(reads, tuple(writes))


def _listed(wakes: Iterable[KindName], reads: Iterable[KindName], writes: Iterable[KindName]) -> Declared:
    seen = {kind.text: True for kind in wakes} | {kind.text: False for kind in reads}
    return Declared(seen, tuple(kind.text for kind in writes))


DECLARED: Final[Mapping[str, Declared]] = {
    **{controller.name: _controller(controller) for controller in CONTROLLERS},
    "scheduler": _listed((PODS, NODES, RESERVATIONS, ZONE_QUOTAS, HOLDS), (PLACEMENT_POLICIES,), (PODS,)),
    "node-health": _listed((NODES, LEASES), (PODS,), (NODES, PODS, LEASES)),
    "repair": _listed(
        (), (RESERVATIONS, PODS, NODES, DEPLOYMENTS, REPLICASETS, JOBS, NAMESPACES), (RESERVATIONS, PODS)
    ),
    "namespace": Declared({NAMESPACES.text: True, EVERYTHING: False}, (NAMESPACES.text, EVERYTHING)),
    "owner-cleanup": Declared({EVERYTHING: True}, (EVERYTHING,)),
    "pod-garbage": _listed((PODS,), (NODES,), (PODS,)),
    "root-ca": _listed((NAMESPACES, CONFIG_MAPS), (), (CONFIG_MAPS,)),
    "agents": _listed((PODS,), (NODES, CONFIG_MAPS), (PODS, NODES, LEASES)),
    # Commit points of the server: they look at what is there at the moment of the commit.
    "admission": _listed((), (RESOURCE_QUOTAS, ZONE_QUOTAS, NAMESPACES), ()),
    "binding": _listed((), (PODS, NODES, RESERVATIONS, ZONE_QUOTAS), (PODS, RESERVATIONS)),
    "eviction": _listed((), (PODS, DISRUPTION_BUDGETS), (PODS, DISRUPTION_BUDGETS)),
    # Beside them it says in the status of quotas what is used.
    "server": _listed((), (PODS, RESERVATIONS), (RESOURCE_QUOTAS, ZONE_QUOTAS)),
}
"""By name."""
