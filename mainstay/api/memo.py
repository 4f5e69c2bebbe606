"""What was found out about a value, remembered by the value's exact bytes.

The pods of one ReplicaSet say the same, as does a template each time its object is written; and what follows from the
bytes of a spec alone, such as that it is valid, need not be found out again. `encoded` makes the key: two values with
the same bytes are the same to code that only reads JSON.

It is safe because nothing here can be changed through what comes out: what is remembered must be a pure function of
the key, and be frozen or never changed by anyone. It is bounded by count and by bytes; when it is full, what has been
there longest goes, and what is still wanted comes back at the price of finding it out once more.
"""

from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T")

COUNT_MAX: Final = 500
BYTES_MAX: Final = 1_000_000  # Of all keys together. What is remembered of one may take some twenty times as much.
KEY_BYTES_MAX: Final = 16_000  # A longer one would push out too many others.

encoded = msgspec.json.Encoder().encode


class Memo(Generic[T]):
    """From bytes to what was found out about them."""

    __slots__ = ("_bytes", "_found")

    def __init__(self) -> None:
        self._found: dict[bytes, T] = {}
        self._bytes = 0

    def get(self, key: bytes) -> T | None:
        return self._found.get(key)

    def put(self, key: bytes, found: T) -> None:
        if len(key) > KEY_BYTES_MAX or key in self._found:
            return
        self._found[key] = found
        self._bytes += len(key)
        while len(self._found) > COUNT_MAX or self._bytes > BYTES_MAX:
            oldest = next(iter(self._found))
            del self._found[oldest]
            self._bytes -= len(oldest)

    def __len__(self) -> int:
        return len(self._found)
