"""What can go wrong with a store, named for what the caller should do next.

A refused check is not here: it is an expected answer (`TransactionRefused` in interface.py), not a failure.
"""


class StoreError(Exception):
    """The base of all of them."""


class InvalidStoreRequest(StoreError):
    """The request itself is wrong. Nothing was changed; do not repeat it."""


class TransactionTooLarge(InvalidStoreRequest):
    """It has more bytes, or more operations, than the store takes at once."""


class Compacted(StoreError):
    """The history that was asked for is gone. Take a new range, and watch from its revision."""

    def __init__(self, compacted: int) -> None:
        super().__init__(f"history up to revision {compacted} has been compacted")
        self.compacted = compacted


class FutureRevision(StoreError):
    """The revision asked for has not happened. If this store once had it, it was restored from an older backup."""

    def __init__(self, asked: int, latest: int) -> None:
        super().__init__(f"revision {asked} has not happened yet: the latest is {latest}")
        self.asked = asked
        self.latest = latest


class OutcomeUnknown(StoreError):
    """No answer came: the commit may or may not have happened, or may still happen.

    Read before you do anything else, and contend on the same key: a check that the first attempt would break.
    """


class StoreUnavailable(StoreError):
    """The store cannot be reached, or takes no writes. Nothing was changed; try again later."""


class StoreAccessDenied(StoreError):
    """The store will not have us, or we do not trust it: certificates, user, password or rights are not as they should
    be. Nothing was changed; change what the message names.
    """


class StorageFull(StoreError):
    """There is no room for this write. Nothing was changed; free some space, or compact, and try again."""


class Corrupt(StoreError):
    """What is on disk is not what was written there, or is not ours. Restore it from a backup; nothing was changed."""


class UnknownEncryptionKey(StoreUnavailable):
    """A value is sealed with a key that this process was not given. Give it that key; nothing was changed."""

    def __init__(self, text: str, key_id: str) -> None:
        super().__init__(text)
        self.key_id = key_id


class NewerFormat(Corrupt):
    """A newer Mainstay has written it. Start that one; nothing was changed."""


class StoreInUse(StoreError):
    """Another process has this data directory open. Stop that one, or use another directory."""


class StoreClosed(StoreError):
    """The store was closed. Nothing was changed."""
