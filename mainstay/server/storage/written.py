"""What a write has led to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Written:
    """The object as stored, and its revision. A dry run has none."""

    value: bytes
    revision: int
    was_removed: bool = False
    is_repeated: bool = False
    """It has happened before: the client has sent the same operation again."""
