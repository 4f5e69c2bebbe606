"""Places of a ReplicaSet, and what the pod in each is called.

A set that wants three pods has the slots 0, 1 and 2. A pod says in annotations which slot it is for and
which pod it replaces there, and is named from its owner, the slot and the pod that it replaces there:

    web-5f6d-                 hash(uid of the set, 0, "")           the first one
    web-5f6d-                 hash(uid of the set, 0, uid of that)  the next, when the first has failed or leaves

So a create whose answer was lost, sent again after a crash or by the next leader, has the same name and meets itself;
and one that comes late cannot bring back a pod that is finished. A pod that was adopted has no slot and needs none: it
counts, and takes no slot.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mainstay.api import pod_state
from mainstay.api.annotations import REPLACES, SLOT
from mainstay.api.kind import Object

NAME_LENGTH_MAX: Final = 63  # A pod's name becomes its host name.
HASH_LENGTH: Final = 8
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # No vowels: no words that could offend.


@dataclass(frozen=True, slots=True)
class Vacant:
    """A slot without a pod that runs or is going to."""

    slot: int
    replaces: str = ""
    """The uid of the last pod that was there, if it is still known."""


def vacant(pods: Sequence[Object], count: int) -> list[Vacant]:
    """The first slots, so many of them, in which nothing is active."""
    last: dict[int, Object] = {}
    taken: dict[int, None] = {}
    replaced = frozenset(_annotation(pod, REPLACES) for pod in pods)
    # One that was replaced comes before the others, so the last of a slot is the one without a replacement.
    for pod in sorted(pods, key=lambda each: (each["metadata"]["uid"] not in replaced, _age(each))):
        slot = parse_slot(pod)
        if slot is not None:
            last[slot] = pod
            if pod_state.is_active(pod):
                taken[slot] = None
    found: list[Vacant] = []
    slot = 0
    while len(found) < count:
        if slot not in taken:
            found.append(Vacant(slot, last[slot]["metadata"]["uid"] if slot in last else ""))
        slot += 1
    return found


def parse_slot(pod: Object) -> int | None:
    text = _annotation(pod, SLOT)
    return int(text) if text.isascii() and text.isdigit() else None


def name_in(owner: Mapping[str, str], vacancy: Vacant, is_taken: Callable[[str], bool] = lambda _: False) -> str:
    """What the pod for a slot is called. `owner` is the set's metadata.

    `is_taken`: whether there is a pod of a name. It may be one that was let go, or another owner's; or, once in some
    hundred thousand sets of a thousand pods, one of the same hash. Then it is called something else.
    """
    salt = 0
    while True:
        parts = [owner["uid"], str(vacancy.slot), vacancy.replaces] + ([str(salt)] if salt else [])
        name = f"{owner['name'][: NAME_LENGTH_MAX - HASH_LENGTH - 1].rstrip('-.')}-{short_hash(*parts)}"
        if not is_taken(name):
            return name
        salt += 1


def short_hash(*parts: str, length: int = HASH_LENGTH) -> str:
    """A few letters and digits that differ when the parts do, and may be part of a name."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4))
        digest.update(encoded)
    number = int.from_bytes(digest.digest())
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[rest])
    return "".join(letters)


def _annotation(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, ""))


def _age(pod: Object) -> tuple[float, str]:
    return (pod_state.created_at(pod).timestamp(), pod["metadata"]["name"])
