"""Which past a store has, so that a client finds out that its own is another one.

A store that is restored from a backup gives the revisions after it to other writes. As long as it has come less far
than a client, the store says so itself: it has not reached the revision that the client asks for. Once it has come
further, the client's revision is there again, with something else in it, and nothing in a number tells the two apart.

So each server notes, when it begins, that an *epoch* of the store begins: a key with a name that was never given
before. The epochs of a store are these names in the order of their revisions. The bookmarks of a watch carry the newest
of them in an annotation, and the client sends it when it resumes after a break:

    Mainstay-Opening: 0c1f9c1e-…

A store that knows this name has the same past up to the revision of the next epoch. Beyond that it need not: to restore
a store is to restart its servers. Not promised: anything to clients that do not send the name, and that a client which
has just seen a change is not made to list everything again when another server begins at that moment. Writes are not
looked at: one that names a version of the lost past is refused because the object is at another one, unless it was
written again at that very revision.

A store that is full can be served, to make room in it, and cannot be written. Then clients are given no epoch, and
those that send one list everything again.
"""

import logging
from bisect import insort
from typing import Final

import msgspec

from mainstay.api.causes import STORE_RESTORED
from mainstay.api.errors import StatusError, StatusReason
from mainstay.env import Env
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.errors import StorageFull
from mainstay.store.interface import ABSENT, Check, DeleteEntry, KeyChange, Put, Store, Write

_logger = logging.getLogger(__name__)

KEPT: Final = 32  # A client that was away for more epochs than this lists everything again.

EPOCHS: Final = f"{INTERNAL_PREFIX}openings/"


class _Epoch(msgspec.Struct, frozen=True, order=True):
    revision: int
    name: str


class StoreEpochs:
    """Of one store, as one server knows them. Make it with `await StoreEpochs.begin(store, env)`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: list[_Epoch] = []
        self._is_noted = False
        """Whether our own epoch is stored. Otherwise it is unknown what was lost before it."""

    @classmethod
    async def begin(cls, store: Store, env: Env) -> "StoreEpochs":
        """Begin an epoch, unless the store is full. Raises what else `commit` raises."""
        epochs = cls(store)
        await epochs._look()
        key = EPOCHS + env.chance.uid("opening", 0)
        forgotten = epochs._known[: max(0, len(epochs._known) - KEPT + 1)]
        writes: list[Write] = [Put(key, b""), *(DeleteEntry(EPOCHS + each.name) for each in forgotten)]
        try:
            await store.commit([Check(key, ABSENT)], writes)
            epochs._is_noted = True
        except StorageFull as error:
            _logger.warning("cannot begin a store epoch; clients that resume will list everything again: %s", error)
        await epochs._look()
        return epochs

    @property
    def newest(self) -> str:
        """Empty if there is none to give to clients."""
        return self._known[-1].name if self._is_noted and self._known else ""

    def heard(self, change: KeyChange) -> None:
        """Another server has begun, if that is what happened."""
        if change.entry is not None and change.key.startswith(EPOCHS):
            epoch = _Epoch(change.revision, change.key.removeprefix(EPOCHS))
            if epoch not in self._known:
                insort(self._known, epoch)

    async def covers(self, name: str, revision: int) -> bool:
        """Whether a client of this epoch that has come to this revision has seen this store's past."""
        if not self._is_noted:
            return False
        if not self._covers(name, revision):
            await self._look()  # There may be one that this server has not seen yet.
        return self._covers(name, revision)

    def _covers(self, name: str, revision: int) -> bool:
        for index, epoch in enumerate(self._known):
            if epoch.name == name:
                later = self._known[index + 1 : index + 2]
                return not later or revision < later[0].revision
        return False

    async def _look(self) -> None:
        page = await self._store.range(EPOCHS)
        self._known = sorted(_Epoch(each.created, each.key.removeprefix(EPOCHS)) for each in page.entries)


def restored_error(revision: int) -> StatusError:
    """The answer to a client whose past is not that of the store."""
    text = f"resource version {revision} is not in the history of this store: it was restored from a backup"
    return StatusError(410, StatusReason.EXPIRED, text, {"causes": [{"reason": STORE_RESTORED, "message": text}]})
