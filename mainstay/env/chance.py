"""Random numbers, ids and name suffixes.

Everything derives from one seed, through one independent stream per label. Taking one more number from a stream never
shifts another one, so a run stays comparable when a single component behaves differently, and a shrunken run stays the
run it came from. Ids are not drawn at all: they are a hash of the seed, their owner and an ordinal, so that their
value does not depend on what else was drawn before.

A process starts with a fresh seed (`Chance.fresh`); a simulated one gets a seed that names the run, the component and
its incarnation.
"""

import hashlib
import os
import random
from typing import Final

# The letters that Kubernetes puts into generated names: no vowels, so no words, and nothing that looks like another
# letter.
SUFFIX_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Chance:
    """A source of labelled random streams and of ids. Not for secrets: the seed determines everything."""

    __slots__ = ("_seed",)

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @classmethod
    def fresh(cls) -> "Chance":
        """A fresh seed, from the operating system."""
        return cls(os.urandom(32))

    def stream(self, *label: str) -> random.Random:
        """A new random stream for this label, always starting at its beginning. Keep it for as long as it is used."""
        return random.Random(self._digest("stream", *label))

    def uid(self, owner: str, ordinal: int) -> str:
        """The id of the owner's n-th thing, in the form of a random UUID. Each pair must be used once only."""
        text = self._digest("uid", owner, str(ordinal)).hex()
        # What `uuid.UUID(bytes=…, version=4)` would say, in a third of the time.
        variant = "89ab"[int(text[16], 16) & 3]
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"

    def suffix(self, owner: str, ordinal: int, *, length: int = 5) -> str:
        """A short name suffix for the owner's n-th thing. Short: the caller must expect a name to be taken."""
        number = int.from_bytes(self._digest("suffix", owner, str(ordinal)))
        letters = []
        for _ in range(length):
            number, index = divmod(number, len(SUFFIX_ALPHABET))
            letters.append(SUFFIX_ALPHABET[index])
        return "".join(letters)

    def child(self, *label: str) -> "Chance":
        """A source of its own for a part of the component, independent of this one."""
        return Chance(self._digest("child", *label))

    def _digest(self, *parts: str) -> bytes:
        digest = hashlib.sha256(self._seed)
        for part in parts:
            encoded = part.encode()
            # The length goes in too, so that ("ab", "c") and ("a", "bc") differ.
            digest.update(len(encoded).to_bytes(4))
            digest.update(encoded)
        return digest.digest()
