"""Labels with a meaning that Kubernetes fixes: where a node is."""

from typing import Final

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
