"""Repairs objects whose metadata cannot be understood, when the server starts.

Versions before 0.3 did not check the metadata that a patch led to, if no message describes the fields of the kind:
custom resources and Mainstay's own kinds. Such an object makes every watch with a selector and every informer of its
kind fail. It is written again with what can be understood of its metadata (api/object_meta.py), and the log names it.
A write of it, or its deletion, would do the same: both read it like this.
"""

import logging
from collections.abc import Iterable
from typing import Final

import msgspec

from mainstay.api.kind import Kind
from mainstay.api.object_meta import is_strict
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.storage.stored import read, stored
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, Entry, Put, Store

_logger = logging.getLogger(__name__)

PAGE_ENTRIES: Final = 500


class _Parts(msgspec.Struct):
    metadata: msgspec.Raw


_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode = msgspec.json.Decoder().decode


async def repair_metadata(store: Store, kinds: Iterable[Kind]) -> int:
    """Repair the objects of these kinds that need it. Returns how many that were."""
    repaired = 0
    prefixes = {build_prefix(kind): kind for kind in kinds if not kind.message and kind.is_kept}
    for prefix, kind in prefixes.items():
        after: str | None = None
        while True:
            page = await store.range(prefix, limit=PAGE_ENTRIES, after=after)
            for entry in page.entries:
                if not is_strict(_decode(_decode_parts(entry.value).metadata)):
                    repaired += await _repair(store, kind, entry)
            if not page.remaining:
                break
            after = page.entries[-1].key
    return repaired


async def _repair(store: Store, kind: Kind, entry: Entry) -> bool:
    """A write that is faster has repaired it as well."""
    try:
        await store.commit([Check(entry.key, entry.revision)], [Put(entry.key, stored(read(kind, entry)))])
    except StoreError as error:
        _logger.warning("%s has malformed metadata, and cannot be repaired now: %s", entry.key, error)
        return False
    _logger.warning("%s had malformed metadata from an older version; removed what was not understood", entry.key)
    return True
