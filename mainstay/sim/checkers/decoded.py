"""What is in the bytes of a commit, taken apart once for all checkers that look at it.

What a commit has changed is mostly what an earlier one has written, so the last few hundred are kept. The objects are
shared: do not change them.
"""

from functools import lru_cache
from typing import Final

import msgspec

from mainstay.api.kind import Object

_KEPT_MAX: Final = 512
_decode = msgspec.json.Decoder(Object).decode


@lru_cache(maxsize=_KEPT_MAX)
def decode_commit(value: bytes) -> Object:
    return _decode(value)


def decode_current(value: bytes | None) -> Object | None:
    return None if value is None else decode_commit(value)
