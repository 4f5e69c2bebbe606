"""The kinds that are always there, each declared in the module of its theme.

`BUILTIN` has all that are kept in the store; `REVIEWS` those that can only be posted. Nothing here is generic code: a
kind is data and a few plain functions over objects, as mainstay/api/kind.py describes.
"""

from dataclasses import replace

from mainstay.api.kind import Kind
from mainstay.api.kinds import (
    admission,
    apiextensions,
    apps,
    autoscaling,
    batch,
    certificates,
    controller_settings,
    coordination,
    core,
    credentials,
    events,
    flowcontrol,
    holds,
    mainstay,
    networking,
    nodes,
    objectives,
    pods,
    policy,
    quotas,
    rbac,
    resource,
    sampling,
    scheduling,
    services,
    storage,
)
from mainstay.api.kinds.reviews import REVIEWS
from mainstay.api.tables import DEFAULT, TABLES

__all__ = ["BUILTIN", "REVIEWS"]


def _shown(kind: Kind) -> Kind:
    """With the table that `kubectl get` shows."""
    table = TABLES.get((kind.group, kind.kind), DEFAULT)
    return replace(kind, columns=table.columns, cells=table.cells, row_conditions=table.conditions)


_DECLARED = (
    *core.KINDS,
    *nodes.KINDS,
    *pods.KINDS,
    *quotas.KINDS,
    *services.KINDS,
    *storage.KINDS,
    *apps.KINDS,
    *batch.KINDS,
    *autoscaling.KINDS,
    *policy.KINDS,
    *events.KINDS,
    *coordination.KINDS,
    *scheduling.KINDS,
    *flowcontrol.KINDS,
    *rbac.KINDS,
    *certificates.KINDS,
    *networking.KINDS,
    *resource.KINDS,
    *apiextensions.KINDS,
    *admission.KINDS,
    *mainstay.KINDS,
    *holds.KINDS,
    *sampling.KINDS,
    *controller_settings.KINDS,
    *objectives.KINDS,
    *credentials.KINDS,
)

BUILTIN: tuple[Kind, ...] = tuple(_shown(kind) for kind in _DECLARED)
