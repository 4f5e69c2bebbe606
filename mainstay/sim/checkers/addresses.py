"""Which key of the store a request is about, from its path alone.

The server looks kinds up to take a path apart (server/request/target.py). A checker should not believe what the server
believes, so this goes by the form of the path: it is the same for all kinds that scenarios use.
"""

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from mainstay.server.storage.keyspace import CORE

_PARTS_OF_A_NAMESPACE = 2  # `namespaces/NAME`: what follows is a kind in it, or `status` or `finalize` of itself.


class StoreAddress(NamedTuple):
    """What a path leads to."""

    prefix: str
    """The beginning of the keys of its kind, in its namespace if it has one."""
    name: str
    """Empty for a collection."""
    subresource: str

    @property
    def key(self) -> str:
        return self.prefix + self.name


@lru_cache(maxsize=1024)
def parse_address(path: str) -> StoreAddress | None:
    """None for what is no object, nor a collection of them."""
    parts = [unquote(part) for part in path.partition("?")[0].split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, rest = CORE, parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    is_own_part = len(rest) == _PARTS_OF_A_NAMESPACE + 1 and rest[2] in ("status", "finalize")
    if rest[0] == "namespaces" and len(rest) > _PARTS_OF_A_NAMESPACE and not is_own_part:
        namespace, rest = f"{rest[1]}/", rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return StoreAddress(f"{group}/{plural}/{namespace}", name, subresource)
