"""The failure domains that pods are in: the zones of their nodes."""

from collections.abc import Sequence

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.api.object_key import ObjectKey
from mainstay.loop.view import View


def zones_of(view: View, pods: Sequence[Object]) -> dict[str, str]:
    """The zone of each node that has one of these pods. Whoever asks must declare to read nodes."""
    names = sorted({pod_state.node_of(pod) for pod in pods} - {""})
    return {name: pod_state.zone_of(view.get(NODES, ObjectKey("", name))) for name in names}
