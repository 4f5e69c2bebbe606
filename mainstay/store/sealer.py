"""Encryption at rest: what a store writes down of a secret can be read only with a key.

Values are sealed where bytes leave the process: in the rows of a log (log.py) and in the values of etcd's keys
(etcd/keyspace.py). In memory, and to everyone who asks the store, they are plain. A `KeyRing` holds the keys: the first
one seals, all of them unseal. AES-256-GCM, with a random nonce for each value; the name of the store's key is
authenticated with it, so that a sealed value that was moved to another name is noticed.

    sealed value = MAGIC, length of the key id, key id, nonce (12 bytes), ciphertext with its tag (16 bytes)

The header is readable without any key, so that a tool can count which keys a store still needs (`read_key_id`). A plain
value that begins like a sealed one is refused (limits.py), so the two are never confused.

Rotation: keys whose newest value is not sealed as the ring would seal it now are *stale*. The ring notes them as values
pass by; server/storage/resealer.py writes them again.

Not promised: that names are secret (they are the store's keys), nor sizes, nor how often a value changes. A key is good
for 2**32 values; rotate it before. Not here: where keys come from (server/encryption_keys.py).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mainstay.env.entropy import random_bytes
from mainstay.store.errors import Corrupt, InvalidStoreRequest, UnknownEncryptionKey

MAGIC: Final = b"\x00MSTY\x01"
KEY_BYTES: Final = 32
KEY_ID_LENGTH_MAX: Final = 40
PLAIN_ID: Final = "none"  # As the first key of a ring: write plain values, and read those of the others.

_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_ID_AT: Final = len(MAGIC) + 1


class Sealer(Protocol):
    def seal(self, key: str, value: bytes) -> bytes:
        """The bytes to write down for a value."""

    def unseal(self, key: str, value: bytes) -> bytes:
        """The value, from what was written down. Raises `UnknownEncryptionKey`, `Corrupt`."""

    def aside(self) -> "Sealer":
        """The same for values that are not, or no more, in the store: a backup, or a past version. It notes nothing."""


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """`id` names it in what it seals; it is no secret. `secret` has `KEY_BYTES` bytes; none at all for `PLAIN_ID`."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"EncryptionKey({self.id!r})"


def read_key_id(value: bytes) -> str | None:
    """The id of the key that a written value is sealed with; None if it is plain. Raises `Corrupt`."""
    if not value.startswith(MAGIC):
        return None
    end = _ID_AT + value[len(MAGIC)] if len(value) > len(MAGIC) else 0
    if not _ID_AT < end <= len(value) - _NONCE_BYTES - _TAG_BYTES:
        raise Corrupt("a sealed value has a damaged header")
    try:
        return value[_ID_AT:end].decode("ascii")
    except UnicodeDecodeError:
        raise Corrupt("a sealed value has a damaged header") from None


class PlainValues:
    """Implements `Sealer` without any key: values are written as they are, and sealed ones refused."""

    def seal(self, key: str, value: bytes) -> bytes:
        return value

    def unseal(self, key: str, value: bytes) -> bytes:
        if value.startswith(MAGIC):
            raise _unknown(key, read_key_id(value) or "", ())
        return value

    def aside(self) -> "PlainValues":
        return self


PLAIN: Final = PlainValues()


class StoredValues:
    """Implements `Sealer` for those who hand values on as they are stored, sealed or not, and need no key for that."""

    def seal(self, key: str, value: bytes) -> bytes:
        return value

    def unseal(self, key: str, value: bytes) -> bytes:
        return value

    def aside(self) -> "StoredValues":
        return self


AS_STORED: Final = StoredValues()


class KeyRing:
    """Implements `Sealer`. Seals the values of store keys that begin with one of `prefixes`; others stay plain.

    It is used by the event loop and by the log's worker thread; each of its steps on `stale` is atomic.
    """

    def __init__(
        self, keys: Sequence[EncryptionKey], prefixes: Iterable[str], nonces: Callable[[int], bytes] = random_bytes
    ) -> None:
        """Keys must differ in their ids (`require_keys`)."""
        require_keys(keys)
        self._prefixes = tuple(prefixes)
        self._nonces = nonces
        self._ciphers = {key.id: AESGCM(key.secret) for key in keys if key.id != PLAIN_ID}
        self.key_id: Final = keys[0].id
        """Of the key that seals."""
        self._cipher = self._ciphers.get(self.key_id)
        self._header = b"" if self._cipher is None else _header(self.key_id)
        self.stale: dict[str, str] = {}
        """Store keys whose newest value, as far as this process knows, is not sealed as it should be, and how it is."""

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The one that seals first."""
        return (self.key_id, *(each for each in self._ciphers if each != self.key_id))

    def seal(self, key: str, value: bytes) -> bytes:
        self.stale.pop(key, None)
        if self._cipher is None or not key.startswith(self._prefixes):
            return value
        nonce = self._nonces(_NONCE_BYTES)
        return self._header + nonce + self._cipher.encrypt(nonce, value, key.encode())

    def unseal(self, key: str, value: bytes) -> bytes:
        wanted = self.key_id if self._cipher is not None and key.startswith(self._prefixes) else PLAIN_ID
        if not value.startswith(MAGIC):
            self._note(key, PLAIN_ID, wanted)
            return value
        found = read_key_id(value) or ""
        cipher = self._ciphers.get(found)
        if cipher is None:
            raise _unknown(key, found, self.key_ids)
        start = _ID_AT + len(found)
        nonce, ciphertext = value[start : start + _NONCE_BYTES], value[start + _NONCE_BYTES :]
        try:
            plain = cipher.decrypt(nonce, ciphertext, key.encode())
        except InvalidTag:
            raise Corrupt(
                f"the value of {key} does not unseal with the encryption key {found!r}: its bytes are damaged, or"
                " another key has this id"
            ) from None
        self._note(key, found, wanted)
        return plain

    def aside(self) -> "KeyRing":
        other = copy(self)
        other.stale = {}
        return other

    def count_stale(self) -> Counter[str]:
        """How many keys are stale, by the id of what they are sealed with."""
        return Counter(list(self.stale.values()))

    def _note(self, key: str, found: str, wanted: str) -> None:
        if found == wanted:
            self.stale.pop(key, None)
        else:
            self.stale[key] = found


def require_keys(keys: Sequence[EncryptionKey]) -> None:
    """Raise `InvalidStoreRequest` unless these make a ring: one key at least, different ids, secrets of the right size.

    `PLAIN_ID` may only stand first, and before another one.
    """
    if not keys:
        raise InvalidStoreRequest("there is no encryption key")
    for number, key in enumerate(keys):
        if not 0 < len(key.id) <= KEY_ID_LENGTH_MAX or not key.id.isascii() or not key.id.isprintable():
            raise InvalidStoreRequest(f"the id of an encryption key has 1 to {KEY_ID_LENGTH_MAX} ASCII characters")
        if key.id == PLAIN_ID:
            if number > 0:
                raise InvalidStoreRequest(f"{PLAIN_ID!r} may only be the first encryption key: it turns encryption off")
            if len(keys) == 1:
                raise InvalidStoreRequest(f"{PLAIN_ID!r} needs another key after it, to read what that one has sealed")
        elif len(key.secret) != KEY_BYTES:
            raise InvalidStoreRequest(
                f"the encryption key {key.id!r} has {len(key.secret)} bytes: {KEY_BYTES} are needed"
            )
    ids = [key.id for key in keys]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        raise InvalidStoreRequest(f"two encryption keys have the id {twice[0]!r}: give each its own")


def _header(key_id: str) -> bytes:
    encoded = key_id.encode("ascii")
    return MAGIC + bytes((len(encoded),)) + encoded


def _unknown(key: str, found: str, known: Sequence[str]) -> UnknownEncryptionKey:
    given = f"the keys given are {', '.join(map(repr, known))}" if known else "no encryption key is given"
    return UnknownEncryptionKey(
        f"{key} is sealed with the encryption key {found!r}, and {given}: add that key to --encryption-key-file, or to"
        " what --encryption-key-command prints",
        found,
    )
