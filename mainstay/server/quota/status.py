"""Keeps what quotas say in their status equal to what is used of them: a copy, for people and controllers to read.

What is used is known at keys beside the objects (tally.py, zone_quota.py), which are written with every object
that counts. The status of a ResourceQuota is written along where that is possible; all others follow from here, a
moment later, each in a transaction of its own. Several servers may do so at once: a status is only replaced by
something newer than what it was read with, and left alone if it is right.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kinds.mainstay import ZONE_QUOTA
from mainstay.api.pod_resources import CPU
from mainstay.api.quantity import NANO, Quantity, parse
from mainstay.env import tasks, vital
from mainstay.env.failed_objects import FailedObjects
from mainstay.server.quota.tally import TALLIES, tally_in
from mainstay.server.quota.zone_quota import ZONES, use_in
from mainstay.server.storage.keyspace import CORE, build_key
from mainstay.server.storage.stored import stored
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, Put, Store, TransactionRefused

JOIN_FOR: Final = timedelta(milliseconds=200)  # What changes many times in a moment is written once.
RETRY_AFTER: Final = timedelta(seconds=1)
_MILLI: Final = NANO // 1000

_logger = logging.getLogger(__name__)
_decode = msgspec.json.Decoder().decode
_Copy = Callable[[str], Awaitable[bool]]
"""Bring the statuses up to date that depend on a key. False if another writer was faster: then it has to be done again.
"""


class QuotaStatuses:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[str, _Copy] = {}
        """Keys whose copies may be out of date."""
        self._has_pending = asyncio.Event()
        self._failed = FailedObjects("quotas")
        self._tasks = [
            vital.spawn(self._follow(TALLIES, self._copy_tally), name="quota-follower"),
            vital.spawn(self._follow(ZONES, self._copy_zone), name="zone-quota-follower"),
            vital.spawn(self._run(), name="quota-status-writer"),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            await tasks.stop(task)

    async def _follow(self, prefix: str, copy: _Copy) -> None:
        while True:
            try:
                page = await self._store.range(prefix)
                self._add((entry.key for entry in page.entries), copy)
                with self._store.watch(prefix, after=page.revision) as watch:
                    async for batch in watch:
                        self._add((change.key for change in batch.changes if change.entry is not None), copy)
            except StoreError as error:
                _logger.warning("cannot watch quotas; relisting in %s: %s", RETRY_AFTER, error)
            await tasks.sleep(RETRY_AFTER)

    def _add(self, keys: Iterable[str], copy: _Copy) -> None:
        for key in keys:
            self._pending[key] = copy
            self._has_pending.set()

    async def _run(self) -> None:
        while True:
            await self._has_pending.wait()
            await tasks.sleep(JOIN_FOR)
            self._has_pending.clear()
            pending, self._pending = self._pending, {}
            for key, copy in pending.items():
                try:
                    with self._failed.guard(key, StoreError):
                        if not await copy(key):
                            self._add((key,), copy)
                except StoreError as error:
                    _logger.warning("what is used of %s could not be written to its status: %s", key, error)
                    self._add((key,), copy)
                    await tasks.sleep(RETRY_AFTER)

    async def _copy_tally(self, key: str) -> bool:
        namespace, is_done = key.removeprefix(TALLIES), True
        for name in tally_in(await self._store.get(key)).quotas:
            is_done &= await self._copy(f"{CORE}/resourcequotas/{namespace}/{name}", key, self._of_tally)
        return is_done

    async def _of_tally(self, key: str, quota: Object) -> Object | None:
        limit = tally_in(await self._store.get(key)).quotas.get(quota["metadata"]["name"])
        return None if limit is None else {"hard": limit.hard, "used": limit.used}

    async def _copy_zone(self, key: str) -> bool:
        namespace, is_done = key.removeprefix(ZONES).partition("/")[0], True
        for name in use_in(await self._store.get(key)).quotas:
            is_done &= await self._copy(build_key(ZONE_QUOTA, namespace, name), key, self._of_zone)
        return is_done

    async def _of_zone(self, key: str, quota: Object) -> Object | None:
        use, hard = use_in(await self._store.get(key)), (quota.get("spec") or {}).get("hard") or {}
        return {"hard": hard, "used": {name: _shown(name, hard, use.used) for name in hard}}

    async def _copy(
        self, place: str, key: str, build_status: Callable[[str, Object], Awaitable[Object | None]]
    ) -> bool:
        """The object is read before what is used of it: so what is written is never older than what it replaces."""
        entry = await self._store.get(place)
        if entry is None:
            return True
        quota: Object = _decode(entry.value)
        wanted = await build_status(key, quota)
        status = quota.get("status") or {}
        if wanted is None or all(status.get(field) == value for field, value in wanted.items()):
            return True
        value = stored({**quota, "status": {**status, **wanted}})
        answer = await self._store.commit([Check(place, entry.revision)], [Put(place, value)])
        return not isinstance(answer, TransactionRefused)


def _shown(name: str, hard: Mapping[str, str], used: Mapping[str, int]) -> str:
    """An amount in base units, written as the limit is."""
    resource = name.removeprefix("requests.")
    unit = _MILLI if resource == CPU else NANO
    return str(Quantity(used.get(resource, 0) * unit, parse(hard[name]).format))
