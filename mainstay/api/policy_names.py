"""The names that a PlacementPolicy can use: of scores, of filters, of resources. Others are refused.

The scheduler has a weight for each score, and the server refuses what the scheduler would not know: a misspelt name
must not become a policy that does nothing.
"""

from typing import Final

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
SCORES: Final = (
    "BalancedAllocation",
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    "NodeAffinity",
    "PodTopologySpread",
    "TaintToleration",
)
WEIGHT_MAX: Final = 100

SPREAD_FILTER: Final = "PodTopologySpread"
OPTIONAL_FILTERS: Final = (SPREAD_FILTER,)
"""Those that a policy may turn off: what they ask for is a matter of balance, which no other component relies on."""
REQUIRED_FILTERS: Final = (
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeResourcesFit",
    "NodeUnschedulable",
    "Reservations",
    "TaintToleration",
    "ZoneQuota",
)
"""Those that always hold: the server or the agent would reject what they let through, or the pod's author or the
node's owner relies on them."""

RESOURCES: Final = ("cpu", "ephemeral-storage", "memory")
"""Besides extended resources, which have a domain, and huge pages."""
