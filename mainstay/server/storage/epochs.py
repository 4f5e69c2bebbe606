"""Which past a store has, so that a client finds out that its own is another one.

A store that is put back to a backup gives the revisions after it to other writes. As long as it has come less far than
a client, it says so itself: what the client asks for is unheard of. Once it has come further, the client's revision is
there again, with something else in it, and nothing in a number tells the two apart.

So each server notes, when it begins, that it has opened the store: a key with a name that was never given before. The
*openings* of a store are these names in the order of their revisions. A watch is told the newest of them, in an
annotation of its bookmarks, and says it when it goes on after a break:

    Mainstay-Opening: 0c1f9c1e-…

A store that knows this name has the same past up to the revision of the next opening. Beyond that it need not: whoever
put it back has started its servers anew. Not promised: anything to clients that do not say the name, and that a client
which has just been told of something is not sent to read everything anew when another server begins at that moment.
Writes are not looked at: one that names a version of the lost past is refused because the object is at another one,
unless it was written again at that very revision.

A store that is full can be served, to make room in it, and cannot be written. Then nobody is told an opening, and
whoever says one reads everything anew.
"""

import logging
from bisect import insort
from typing import Final

import msgspec

from mainstay.api.causes import STORE_RESTORED
from mainstay.api.errors import ApiError, Reason
from mainstay.env import Env
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.errors import StorageFull
from mainstay.store.interface import ABSENT, Change, Check, Delete, Put, Store, Write

_logger = logging.getLogger(__name__)

KEPT: Final = 32  # A client that was away for more openings than this reads everything anew.

_PREFIX: Final = f"{INTERNAL_PREFIX}openings/"


class _Epoch(msgspec.Struct, frozen=True, order=True):
    revision: int
    name: str


class StoreEpochs:
    """Of one store, as one server knows them. Make it with `await Openings.begin(store, env)`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: list[_Epoch] = []
        self._is_noted = False
        """That we have opened it. Otherwise nobody can know what was lost before that."""

    @classmethod
    async def begin(cls, store: Store, env: Env) -> "StoreEpochs":
        """Note that the store was opened, unless it is full. Raises what else `commit` raises."""
        epochs = cls(store)
        await epochs._look()
        key = _PREFIX + env.chance.uid("opening", 0)
        forgotten = epochs._known[: max(0, len(epochs._known) - KEPT + 1)]
        writes: list[Write] = [Put(key, b""), *(Delete(_PREFIX + each.name) for each in forgotten)]
        try:
            await store.commit([Check(key, ABSENT)], writes)
            epochs._is_noted = True
        except StorageFull as error:
            _logger.warning("clients that watch will read everything anew when they come back: %s", error)
        await epochs._look()
        return epochs

    @property
    def newest(self) -> str:
        """Empty if there is none that clients may be told."""
        return self._known[-1].name if self._is_noted and self._known else ""

    def heard(self, change: Change) -> None:
        """Another server has begun, if that is what happened."""
        if change.entry is not None and change.key.startswith(_PREFIX):
            epoch = _Epoch(change.revision, change.key.removeprefix(_PREFIX))
            if epoch not in self._known:
                insort(self._known, epoch)

    async def covers(self, name: str, revision: int) -> bool:
        """Whether a client that was told this opening, and has come to this revision, has seen this store's past."""
        if not self._is_noted:
            return False
        if not self._covers(name, revision):
            await self._look()  # There may be one that we have not heard of yet.
        return self._covers(name, revision)

    def _covers(self, name: str, revision: int) -> bool:
        for index, epoch in enumerate(self._known):
            if epoch.name == name:
                later = self._known[index + 1 : index + 2]
                return not later or revision < later[0].revision
        return False

    async def _look(self) -> None:
        page = await self._store.range(_PREFIX)
        self._known = sorted(_Epoch(each.created, each.key.removeprefix(_PREFIX)) for each in page.entries)


def restored_error(revision: int) -> ApiError:
    """The answer to a client whose past is not that of the store."""
    text = f"resource version {revision} is of a past that the store does not have any more: it was put back"
    return ApiError(410, Reason.EXPIRED, text, {"causes": [{"reason": STORE_RESTORED, "message": text}]})
