"""Decisions as objects, `kubectl get decisions`: what was decided about what, how it ended, and what it wrote.

They are not part of `BUILTIN`, because no store holds them: the server makes them from its journal on request
(server/decisions/reads.py). A decision is in the namespace of what it is about, or in `default` if that has none.
"""

from mainstay.api import kind_names
from mainstay.api.kinds.declare import at, declare
from mainstay.api.tables.own import DECISION_TABLE

NAMESPACE = "default"
"""Of decisions about what has none."""


DECISION = declare(
    kind_names.DECISIONS,
    short_names=("dec",),
    verbs=("get", "list", "watch"),
    has_generation=False,
    is_kept=False,
    columns=DECISION_TABLE.columns,
    cells=DECISION_TABLE.cells,
    selectable={
        "subject.kind": at("subject", "kind"),
        "subject.name": at("subject", "name"),
        "subject.namespace": at("subject", "namespace"),
        "subject.uid": at("subject", "uid"),
        "component": at("component"),
        "outcome": at("outcome"),
        "reason": at("reason"),
    },
)

KINDS = (DECISION,)
