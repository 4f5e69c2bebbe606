"""The name of an object among those of its kind, as caches and queues use it."""

from typing import NamedTuple


class ObjectKey(NamedTuple):
    """Sorts by namespace, then by name."""

    namespace: str
    """Empty for what has none, such as a node."""
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name
