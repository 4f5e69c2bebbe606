"""Is a request well-formed? The same answers, in the same words, whatever store is behind it."""

from collections.abc import Sequence
from typing import Final

from mainstay.store.errors import InvalidStoreRequest, TransactionTooLarge
from mainstay.store.interface import (
    KEY_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    Check,
    DeleteEntry,
    Put,
    Write,
)
from mainstay.store.sealer import MAGIC as SEALED


def require_key(key: str) -> int:
    """Raise `InvalidStoreRequest` unless this can be a key. Returns its size in bytes."""
    if type(key) is not str or not key:
        raise InvalidStoreRequest(f"a key is a non-empty text, not {key!r}")
    size = len(key) if key.isascii() else _utf8_size(key)
    if size > KEY_BYTES_MAX:
        raise InvalidStoreRequest(f"the key {key[:40]!r}… has {size} bytes: at most {KEY_BYTES_MAX} are allowed")
    return size


def require_prefix(prefix: str) -> None:
    """Raise `InvalidStoreRequest` unless keys can begin like this. The empty prefix covers every key."""
    if prefix != "":
        require_key(prefix)


REVISION_MAX: Final = 2**63 - 1  # What etcd, and sqlite, can hold.


def require_revision(revision: int, *, least: int) -> None:
    if type(revision) is not int or not least <= revision <= REVISION_MAX:
        raise InvalidStoreRequest(f"a revision here is a whole number from {least} up, not {revision!r}")


def require_range(prefix: str, at: int | None, limit: int | None, after: str | None) -> None:
    require_prefix(prefix)
    if at is not None:
        require_revision(at, least=1)
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InvalidStoreRequest(f"the limit of a range is a whole number from 1 up, not {limit!r}")
    if after is not None:
        require_key(after)


def require_transaction(checks: Sequence[Check], writes: Sequence[Write], *, may_be_sealed: bool = False) -> None:
    """Raise `InvalidStoreRequest` unless this can be committed. `may_be_sealed`: values come as they are stored."""
    if not writes:
        raise InvalidStoreRequest("a commit must write something")
    if len(checks) + len(writes) > TRANSACTION_OPERATIONS_MAX:
        raise TransactionTooLarge(
            f"{len(checks)} checks and {len(writes)} writes: together at most {TRANSACTION_OPERATIONS_MAX} are allowed"
        )
    size = 0
    for check in checks:
        if type(check) is not Check:
            raise InvalidStoreRequest(f"a check is a Check, not {check!r}")
        size += 2 * require_key(check.key)  # etcd is sent it twice: to compare, and to tell what is there instead.
        require_revision(check.revision, least=0)
    for write in writes:
        # Whatever is no Put would be taken for a Delete further on.
        if type(write) is not Put and type(write) is not DeleteEntry:
            raise InvalidStoreRequest(f"a write is a Put or a Delete, not {write!r}")
        size += require_key(write.key)
        if isinstance(write, Put):
            if type(write.value) is not bytes:
                raise InvalidStoreRequest(f"the value of {write.key!r} is bytes, not {type(write.value).__name__}")
            if write.value.startswith(SEALED) and not may_be_sealed:
                raise InvalidStoreRequest(f"the value of {write.key!r} begins like a sealed one: it cannot be stored")
            size += len(write.value)
    if size > TRANSACTION_BYTES_MAX:
        raise TransactionTooLarge(f"the transaction has {size} bytes: at most {TRANSACTION_BYTES_MAX} are allowed")
    _require_distinct("checked", checks)
    _require_distinct("written", writes)


def _require_distinct(what: str, operations: Sequence[Check] | Sequence[Write]) -> None:
    if len(operations) > 1 and len({operation.key for operation in operations}) < len(operations):
        keys = [operation.key for operation in operations]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InvalidStoreRequest(f"the key {twice!r} is {what} twice in one transaction")


def _utf8_size(key: str) -> int:
    try:
        return len(key.encode())
    except UnicodeEncodeError:
        raise InvalidStoreRequest(f"the key {key!r} cannot be written as UTF-8") from None
