"""The states of a node, and what leads from one to the next: the table of node health.

decide.py finds out which `Sign` there is of a node; what follows from it is here. docs/state-machines.md has the
diagram, which is drawn from the table.
"""

from enum import StrEnum
from typing import Final

from mainstay.api.node_health import HealthState
from mainstay.env.state_table import StateTable


class Sign(StrEnum):
    """What there is to go by, of one node in one pass. Without one it stays as it is."""

    HEARD = "heard"
    LATE = "heartbeat late"
    """If it was heard since we listen: one that was silent for a leader before us is no better for being late now."""
    SILENT = "silent for as long as its lease"
    PERMITTED = "still silent, and its zone has a permit"
    TAINTED = "still silent, and tainted as released"
    """A release is not taken back while the node is silent, unless the silence may be ours."""


STEPS: Final = StateTable[HealthState](
    (
        (HealthState.HEALTHY, Sign.HEARD, HealthState.HEALTHY),
        (HealthState.HEALTHY, Sign.LATE, HealthState.SUSPECT),
        (HealthState.HEALTHY, Sign.SILENT, HealthState.UNKNOWN),
        (HealthState.HEALTHY, Sign.TAINTED, HealthState.RELEASED),
        (HealthState.SUSPECT, Sign.HEARD, HealthState.HEALTHY),
        (HealthState.SUSPECT, Sign.LATE, HealthState.SUSPECT),
        (HealthState.SUSPECT, Sign.SILENT, HealthState.UNKNOWN),
        (HealthState.SUSPECT, Sign.TAINTED, HealthState.RELEASED),
        (HealthState.UNKNOWN, Sign.HEARD, HealthState.HEALTHY),
        (HealthState.UNKNOWN, Sign.LATE, HealthState.SUSPECT),
        (HealthState.UNKNOWN, Sign.SILENT, HealthState.UNKNOWN),
        (HealthState.UNKNOWN, Sign.PERMITTED, HealthState.RELEASED),
        (HealthState.UNKNOWN, Sign.TAINTED, HealthState.RELEASED),
        (HealthState.RELEASED, Sign.HEARD, HealthState.HEALTHY),
        (HealthState.RELEASED, Sign.LATE, HealthState.SUSPECT),
        (HealthState.RELEASED, Sign.SILENT, HealthState.UNKNOWN),
        (HealthState.RELEASED, Sign.PERMITTED, HealthState.RELEASED),
        (HealthState.RELEASED, Sign.TAINTED, HealthState.RELEASED),
    )
)
"""Of one that is silent: it is unknown at first, which is what it stays while releases are held back."""
