"""A pod that takes a port of the machine needs a machine where it is free."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from mainstay.api.pod_resources import HostPort
from mainstay.scheduler.cache.arrays import Rows, Truths
from mainstay.scheduler.cache.columns import NodeColumns
from mainstay.scheduler.cache.ring import Ring
from mainstay.scheduler.filters.refused import refused
from mainstay.scheduler.pod_class import PodClass
from mainstay.scheduler.reasons import Cure, Refusal, RefusalReason

PLUGIN: Final = "NodePorts"


def passing(columns: NodeColumns, pod: PodClass, rows: Rows) -> Truths:
    taken = [row for port in pod.ports for row in _refusing(columns, pod, port)]
    return ~np.isin(rows, taken)


def passes(columns: NodeColumns, pod: PodClass, row: int) -> bool:
    """The same for one row."""
    held = columns.reservation(pod.namespace, pod.reservation) if pod.reservation else None
    own = held.charge.ports if held is not None and held.is_counted and held.row == row else ()
    return not any(columns.ports.refuses(row, port, own) for port in pod.ports)


def refusals(columns: NodeColumns, pod: PodClass, ring: Ring) -> Iterator[Refusal]:
    cures = (Cure.NODE_ADDED, Cure.POD_REMOVED, Cure.RESERVATION_RELEASED)
    for port in sorted(pod.ports):
        refuses = np.isin(ring.rows, _refusing(columns, pod, port))
        detail = f"{port.ip}:{port.port}/{port.protocol}"
        yield from refused(ring, refuses, RefusalReason.PORT_TAKEN, PLUGIN, cures, detail=detail)


def _refusing(columns: NodeColumns, pod: PodClass, port: HostPort) -> list[int]:
    held = columns.reservation(pod.namespace, pod.reservation) if pod.reservation else None
    if held is None or not held.is_counted:
        return columns.ports.rows_refusing(port)
    return columns.ports.rows_refusing(port, held.charge.ports, held.row)
