"""Reading one's own writes: a key is not decided about again until the caches show what was last written for it.

A decision on a cache that does not show the last one's writes would make them again: a second pod, a second slice. So
each write leaves behind what the cache must have reached: a revision, or that an object is gone. A write whose outcome
is unknown leaves a *doubt*: before the next decision the server is asked how far that kind is, and the cache must get
there. A write that is still under way then may come later yet; it meets the same name or the same version, and one of
the two is refused.

What is not read by the controller cannot be waited for, and needs no waiting.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.loop.act import OwnWrite


@dataclass(slots=True)
class _Own:
    reach: dict[KindName, int] = field(default_factory=dict)
    gone: list[tuple[OwnWrite, int]] = field(default_factory=list)
    """What was removed, and how often its cache had gone back by then: a store that is put back has it again."""
    doubts: dict[KindName, None] = field(default_factory=dict)


class OwnWrites:
    """What the keys of one controller still wait to see."""

    def __init__(self, caches: Mapping[KindName, Cache]) -> None:
        self._caches = caches
        self._keys: dict[ObjectKey, _Own] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def wrote(self, key: ObjectKey, wrote: OwnWrite) -> None:
        """A decision about a key has led to this."""
        if wrote.kind not in self._caches:
            return
        own = self._keys.setdefault(key, _Own())
        if wrote.gone_uid:
            own.gone.append((wrote, self._caches[wrote.kind].rewinds))
        else:
            own.reach[wrote.kind] = max(own.reach.get(wrote.kind, 0), wrote.revision)

    def doubt(self, key: ObjectKey, kind: KindName) -> None:
        """A write to this kind may or may not have happened."""
        if kind in self._caches:
            self._keys.setdefault(key, _Own()).doubts[kind] = None

    def doubts(self, key: ObjectKey) -> list[KindName]:
        """The kinds of which it is not known how far the cache has to get."""
        own = self._keys.get(key)
        return list(own.doubts) if own is not None else []

    def settle(self, key: ObjectKey, kind: KindName, revision: int) -> None:
        """The server says how far a kind is: the doubt is over when the cache is there."""
        own = self._keys[key]
        own.doubts.pop(kind, None)
        own.reach[kind] = max(own.reach.get(kind, 0), revision)

    def is_seen(self, key: ObjectKey) -> bool:
        """Whether the caches show all that was written for a key. Then it is forgotten."""
        own = self._keys.get(key)
        if own is None:
            return True
        if own.doubts or any(self._caches[kind].revision < revision for kind, revision in own.reach.items()):
            return False
        if any(self._is_there(*gone) for gone in own.gone):
            return False
        del self._keys[key]
        return True

    async def seen(self, key: ObjectKey) -> None:
        """Wait until that is so. There must be no doubts. Raises `CacheStopped` if a cache is not fed any more."""
        while not self.is_seen(key):
            own = self._keys[key]
            for kind, revision in list(own.reach.items()):
                await self._caches[kind].wait_until(revision)
            for wrote, rewinds in list(own.gone):
                # It is not known at which revision it went, so each further one is worth a look.
                while self._is_there(wrote, rewinds):
                    cache = self._caches[wrote.kind]
                    await cache.wait_until(cache.revision + 1)

    def forget(self, key: ObjectKey) -> None:
        self._keys.pop(key, None)

    def _is_there(self, wrote: OwnWrite, rewinds: int) -> bool:
        cache = self._caches[wrote.kind]
        entry = cache.entry(wrote.key)
        return entry is not None and entry.uid == wrote.gone_uid and cache.rewinds == rewinds
