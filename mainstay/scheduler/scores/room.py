"""Which columns the scores of room look at, for one class of pods and one policy."""

from dataclasses import dataclass

from mainstay.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY
from mainstay.scheduler.cache.columns import SCORED_CPU, SCORED_MEMORY, NodeColumns
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.policy import Policy

_ALWAYS_MEASURED = (CPU, MEMORY, EPHEMERAL_STORAGE)


@dataclass(frozen=True, slots=True)
class ScoredResource:
    """One resource: its column, what the pod would add, and its weight."""

    column: int
    amount: int
    weight: int


def measured_for_allocation(columns: NodeColumns, pod: PodClass, policy: Policy) -> tuple[ScoredResource, ...]:
    """A container that does not say how much CPU or memory it needs counts as needing a little."""
    found = []
    for resource, weight in policy.resources:
        if resource == CPU:
            found.append(ScoredResource(columns.find_column(SCORED_CPU), pod.scored_cpu, weight))
        elif resource == MEMORY:
            found.append(ScoredResource(columns.find_column(SCORED_MEMORY), pod.scored_memory, weight))
        elif _is_measured(pod, resource):
            found.append(ScoredResource(columns.find_column(resource), pod.requests.get(resource, 0), weight))
    return tuple(found)


def measured_for_balance(columns: NodeColumns, pod: PodClass, policy: Policy) -> tuple[ScoredResource, ...]:
    """What pods ask for counts, and nothing else. Empty if the pod asks for none of it: then no node is preferred, or
    all such pods would go to the same one."""
    if not any(pod.requests.get(resource) for resource, _ in policy.resources):
        return ()
    return tuple(
        ScoredResource(columns.find_column(resource), pod.requests.get(resource, 0), weight)
        for resource, weight in policy.resources
        if _is_measured(pod, resource)
    )


def _is_measured(pod: PodClass, resource: str) -> bool:
    """Extended resources count only for pods that ask for them."""
    return resource in _ALWAYS_MEASURED or bool(pod.requests.get(resource))
