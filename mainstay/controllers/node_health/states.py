"""The states of a node, and what leads from one to the next: the table of node health.

decide.py finds out which `Sign` there is of a node; what follows from it is here. docs/state-machines.md has the
diagram, which is drawn from the table.
"""

from enum import StrEnum
from typing import Final

from mainstay.api.node_health import State
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


STEPS: Final = StateTable[State](
    (
        (State.HEALTHY, Sign.HEARD, State.HEALTHY),
        (State.HEALTHY, Sign.LATE, State.SUSPECT),
        (State.HEALTHY, Sign.SILENT, State.UNKNOWN),
        (State.HEALTHY, Sign.TAINTED, State.RELEASED),
        (State.SUSPECT, Sign.HEARD, State.HEALTHY),
        (State.SUSPECT, Sign.LATE, State.SUSPECT),
        (State.SUSPECT, Sign.SILENT, State.UNKNOWN),
        (State.SUSPECT, Sign.TAINTED, State.RELEASED),
        (State.UNKNOWN, Sign.HEARD, State.HEALTHY),
        (State.UNKNOWN, Sign.LATE, State.SUSPECT),
        (State.UNKNOWN, Sign.SILENT, State.UNKNOWN),
        (State.UNKNOWN, Sign.PERMITTED, State.RELEASED),
        (State.UNKNOWN, Sign.TAINTED, State.RELEASED),
        (State.RELEASED, Sign.HEARD, State.HEALTHY),
        (State.RELEASED, Sign.LATE, State.SUSPECT),
        (State.RELEASED, Sign.SILENT, State.UNKNOWN),
        (State.RELEASED, Sign.PERMITTED, State.RELEASED),
        (State.RELEASED, Sign.TAINTED, State.RELEASED),
    )
)
"""Of one that is silent: it is unknown at first, which is what it stays while releases are held back."""
