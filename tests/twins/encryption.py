"""Planted bugs in the rotation of encryption keys."""

import pytest

from mainstay.env import tasks
from mainstay.server.storage import key_rotation
from mainstay.server.storage.key_rotation import KeyRotation
from mainstay.store.interface import Put


def writes_back_whatever_it_has_read(patch: pytest.MonkeyPatch) -> None:
    """Seals a value again without a look at whether it is still the newest."""

    async def write_stale(self: KeyRotation) -> None:
        found = {key: await self._store.get(key) for key in sorted(self._ring.stale)}
        await tasks.sleep(key_rotation.PAUSE * len(found))
        for key, entry in found.items():
            if entry is None:
                self._ring.stale.pop(key, None)
            else:
                await self._store.commit([], [Put(key, entry.value)])

    patch.setattr(KeyRotation, "_write_stale", write_stale)
