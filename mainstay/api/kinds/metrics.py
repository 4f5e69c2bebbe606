"""What nodes and pods use, as `kubectl top` and autoscalers read it (`metrics.k8s.io`), and what pods say of themselves
(`custom.metrics.k8s.io`): there the name of a metric stands where others have a subresource.

They are not part of `BUILTIN`, because no store holds them: the server asks the agents (server/node_proxy/).
"""

from datetime import datetime
from typing import Any

from mainstay.api.kind import ANY_SUBRESOURCE, Column, Kind, Object, Subresource
from mainstay.api.quantity import parse

GROUP = "metrics.k8s.io"

_READ = ("get", "list")
_COLUMNS = (
    Column("Name", format="name", description="Name of the resource"),
    Column("cpu"),
    Column("memory"),
    Column("Window", format="duration", description="Over how long it was measured"),
)


def _node_cells(metrics: Object, now: datetime) -> list[Any]:
    usage = metrics["usage"]
    return [metrics["metadata"]["name"], usage["cpu"], usage["memory"], metrics["window"]]


def _pod_cells(metrics: Object, now: datetime) -> list[Any]:
    used = [each["usage"] for each in metrics["containers"]]
    cpu = sum(parse(each["cpu"]).nano for each in used)
    memory = sum(parse(each["memory"]).nano for each in used) // 1_000_000_000 // 1024
    return [metrics["metadata"]["name"], f"{cpu}n", f"{memory}Ki", metrics["window"]]


NODE_METRICS = Kind(
    group=GROUP, version="v1beta1", kind="NodeMetrics", plural="nodes", singular="", namespaced=False, verbs=_READ,
    has_generation=False, is_kept=False, columns=_COLUMNS, cells=_node_cells,
)  # fmt: skip
POD_METRICS = Kind(
    group=GROUP, version="v1beta1", kind="PodMetrics", plural="pods", singular="", namespaced=True, verbs=_READ,
    has_generation=False, is_kept=False, columns=_COLUMNS, cells=_pod_cells,
)  # fmt: skip
POD_CUSTOM_METRICS = Kind(
    group=f"custom.{GROUP}", version="v1beta2", kind="MetricValueList", plural="pods", singular="", namespaced=True,
    verbs=(), subresources=(Subresource(ANY_SUBRESOURCE, ("get",)),), has_generation=False, is_kept=False,
)  # fmt: skip

KINDS = (NODE_METRICS, POD_METRICS, POD_CUSTOM_METRICS)
