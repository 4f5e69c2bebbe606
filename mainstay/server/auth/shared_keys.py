"""Servers over one store have the same authority and the same key for tokens: a client of one is known at the others.

The first server notes in the store which ones it has: hashes of what is public. A later one that has others does not
start. Where only one server uses the store, its keys are those of the cluster, whatever they were before: an
administrator has replaced them.
"""

import logging
from typing import Final

import msgspec

from mainstay.http.certificates import BadCertificate, compute_fingerprint
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.errors import StorageFull
from mainstay.store.interface import ABSENT, Check, Put, Store, TransactionRefused

KEY: Final = f"{INTERNAL_PREFIX}keys"

_logger = logging.getLogger(__name__)


class _SharedKeys(msgspec.Struct, frozen=True):
    authority: str
    """Hash of the certificate of the cluster's authority."""
    tokens: str
    """The name of the key that signs tokens of service accounts."""


class OtherKeys(BadCertificate):
    """Another server over this store has other keys. The message says which, and what to do."""


async def require_shared_keys(store: Store, authority: bytes, tokens: str, *, replaces: bool) -> None:
    """Note the keys of this server, or compare them with those that are noted. `authority`: the certificate, as PEM;
    `tokens`: the name of the key. `replaces`: these are right, whatever is there. Raises `OtherKeys`, `StoreError`."""
    own = _SharedKeys(compute_fingerprint(authority), tokens)
    value = msgspec.json.encode(own)
    while True:
        entry = await store.get(KEY)
        if entry is not None:
            if entry.value == value:
                return
            if not (replaces or store.local is not None):
                raise OtherKeys(_explain(own, msgspec.json.decode(entry.value, type=_SharedKeys)))
            _logger.warning("the keys of the cluster were replaced: all clients need new credentials")
        check = Check(KEY, ABSENT if entry is None else entry.revision)
        try:
            if not isinstance(await store.commit([check], [Put(KEY, value)]), TransactionRefused):
                return
        except StorageFull as error:
            _logger.warning("cannot note which keys the servers of this cluster have: %s", error)
            return


def _explain(own: _SharedKeys, noted: _SharedKeys) -> str:
    files = ["ca.crt", "ca.key"] if own.authority != noted.authority else []
    files += ["service-account.key"] if own.tokens != noted.tokens else []
    return (
        f"the servers of this cluster have another {' and '.join(files)} than this data directory: copy them from the"
        " data directory of one of them. To replace the keys of the whole cluster, stop all servers and start the first"
        " one with --replace-keys"
    )
