"""A follower that believes every change an informer tells, and notices when that cannot be."""

from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import CachedObject, Change, ChangeType
from mainstay.client.informer import Informer


class Follower:
    """Builds its own picture from changes alone. It must come out equal to the cache, and to a fresh list."""

    def __init__(self, informer: Informer, *, may_go_back: bool = False) -> None:
        self.told: list[tuple[str, str, int]] = []
        """Each change: its type, the name, the revision."""
        self.problems: list[str] = []
        self._objects: dict[ObjectKey, CachedObject] = {}
        self._informer = informer
        self._may_go_back = may_go_back
        self._revision = 0
        informer.subscribe(self._heard)

    def objects(self) -> dict[ObjectKey, tuple[str, int]]:
        """Uid and revision of each object, by key."""
        return {key: (entry.uid, entry.revision) for key, entry in sorted(self._objects.items())}

    def _heard(self, change: Change) -> None:
        self.told.append((change.type.value, change.key.name, change.revision))
        known = self._objects.get(change.key)
        self._require(change, change.revision == self._informer.cache.revision, "the cache is somewhere else")
        self._require(change, change.revision >= self._revision or self._may_go_back, f"after {self._revision}")
        self._require(change, known == change.old, f"it was {known}")
        self._revision = change.revision
        if change.type is ChangeType.ADDED:
            self._require(change, known is None, "it was there")
        elif known is None:
            self._require(change, False, "it was not there")
        elif change.new is not None:
            self._require(change, change.new.uid == known.uid, f"it is another object than {known.uid}")
        if change.new is None:
            self._objects.pop(change.key, None)
        else:
            self._objects[change.key] = change.new

    def _require(self, change: Change, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(f"{change.type} {change.key} at {change.revision}: {otherwise}")
