"""All faults, in the order of docs/faults.md."""

from typing import Final

from tests.faults import going, held_out, held_out_again, making, placing, running
from tests.faults.fault import Fault

FAULTS: Final[tuple[Fault, ...]] = (*placing.FAULTS, *making.FAULTS, *running.FAULTS, *going.FAULTS)

WANTED: Final = 36
"""So many of them must be named."""

HELD_OUT: Final[tuple[Fault, ...]] = (*held_out.FAULTS, *held_out_again.FAULTS)
"""Those that were in no list."""
HELD_OUT_NAMED_AT_FIRST: Final = held_out.NAMED_AT_FIRST + held_out_again.NAMED_AT_FIRST
