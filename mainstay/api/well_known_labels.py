"""Labels with a meaning that Kubernetes fixes: where a node is, and from which template a pod was made."""

from typing import Final

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
HASH_LABEL: Final = "pod-template-hash"
