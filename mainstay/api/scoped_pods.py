"""What scopes of policies look at in a pod, read from the pod as the API has it. The scheduler reads the same from what
it keeps of a pod (scheduler/pod_class.py)."""

from mainstay.api.kind import Object
from mainstay.api.node_terms import parse_requirements
from mainstay.api.policy_scope import ScopedPod, find_workload
from mainstay.api.well_known_labels import REGION_LABEL, ZONE_LABEL


def read_scoped_pod(pod: Object) -> ScopedPod:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    nodes = parse_requirements(spec)
    return ScopedPod(
        namespace=metadata.get("namespace") or "",
        labels=metadata.get("labels") or {},
        priority_class=spec.get("priorityClassName") or "",
        zones=nodes.find_values(ZONE_LABEL),
        regions=nodes.find_values(REGION_LABEL),
        workload=find_workload(pod),
    )
