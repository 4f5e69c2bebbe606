"""Where in etcd a store's keys are, and how its values lie there: all keys under one root, as UTF-8; values sealed."""

from mainstay.store.errors import Corrupt, InvalidStoreRequest
from mainstay.store.etcd.kv import KeyValue, PutKey
from mainstay.store.interface import Entry
from mainstay.store.limits import require_key
from mainstay.store.sealer import PLAIN, Sealer

ROOT_BYTES_MAX = 64  # It is in each key of a transaction; those have little room to spare.


class Keyspace:
    def __init__(self, root: str, sealer: Sealer = PLAIN) -> None:
        """Raises `InvalidStoreRequest` unless it begins and ends with a slash: of two roots, neither may begin like the
        other.
        """
        if not (root.startswith("/") and root.endswith("/")) or require_key(root) > ROOT_BYTES_MAX:
            raise InvalidStoreRequest(f"the root of a store in etcd is like '/mainstay/', not {root!r}")
        self.root = root.encode()
        self.sealer = sealer

    def encode(self, key: str) -> bytes:
        return self.root + key.encode()

    def span(self, prefix: str) -> tuple[bytes, bytes]:
        """The first key under a prefix, and the first one after all of those."""
        first = self.encode(prefix)
        # The last byte of a text in UTF-8 is never 0xff, so one more is a byte too.
        return first, first[:-1] + bytes((first[-1] + 1,))

    def put(self, key: str, value: bytes) -> PutKey:
        return PutKey(self.encode(key), self.sealer.seal(key, value))

    def entry(self, kv: KeyValue) -> Entry:
        """Raises `UnknownEncryptionKey`, `Corrupt`."""
        key = self.decode(kv.key)
        return Entry(key, self.sealer.unseal(key, kv.value), kv.create_revision, kv.mod_revision, kv.version)

    def decode(self, key: bytes) -> str:
        try:
            return key[len(self.root) :].decode()
        except UnicodeDecodeError:
            raise Corrupt(f"etcd has a key under {self.root!r} that none of us has written: {key!r}") from None
