"""The keys that Secrets are sealed with at rest: read from files, or printed by a command.

    # The first key seals, all of them unseal.
    2026-11:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=
    2026-05:…

A line is the id of a key, a colon, and 32 random bytes in base64. Blank lines and those that begin with `#` do not
count. The word `none` as the first line turns encryption off: new values are plain, and the keys after it read what is
sealed.

A command is how a key management service, a vault or an encrypted file comes in: it runs once, when the server starts,
without a shell, and prints the same lines. No message here contains a line, and so no key.
"""

import shlex
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from mainstay.env import commands, tasks
from mainstay.env.disk import read_text
from mainstay.server.storage.key_rotation import SEALED_PREFIXES
from mainstay.store.errors import InvalidStoreRequest, StoreError
from mainstay.store.sealer import PLAIN_ID, EncryptionKey, KeyRing

COMMAND_LIMIT: Final = timedelta(seconds=30)
_ERRORS_SHOWN: Final = 300
_COMMAND: Final = "--encryption-key-command"


class BadEncryptionKeys(StoreError):
    """The keys cannot be used. The message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class KeyCommand:
    command: str


KeySource = KeyFiles | KeyCommand


async def open_key_ring(source: KeySource) -> KeyRing:
    """Raises `BadEncryptionKeys`."""
    match source:
        case KeyFiles(paths):
            keys = [key for path in paths for key in _parse_lines(_read(path), f"{path}")]
            return _make_ring(keys, ", ".join(map(str, paths)))
        case KeyCommand(command):
            return _make_ring(_parse_lines(await _run(command), _COMMAND), _COMMAND)


def _parse_lines(text: str, where: str) -> list[EncryptionKey]:
    """The keys in a text that came from somewhere. Raises `BadEncryptionKeys`."""
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line == PLAIN_ID:
            keys.append(EncryptionKey(PLAIN_ID, b""))
            continue
        key_id, found, encoded = line.partition(":")
        if not found:
            raise BadEncryptionKeys(f"{where}: line {number} is not ID:BASE64")
        try:
            secret = b64decode(encoded.strip(), validate=True)
        except (Base64Error, ValueError):
            raise BadEncryptionKeys(f"{where}: line {number}: the key {key_id!r} is not in base64") from None
        keys.append(EncryptionKey(key_id.strip(), secret))
    return keys


def _make_ring(keys: Sequence[EncryptionKey], where: str) -> KeyRing:
    try:
        return KeyRing(keys, SEALED_PREFIXES)
    except InvalidStoreRequest as error:
        raise BadEncryptionKeys(f"{where}: {error}") from None


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError:
        raise BadEncryptionKeys(f"{path} is not text in UTF-8") from None
    except OSError as error:
        raise BadEncryptionKeys(f"cannot read {path}: {error.strerror or error}") from None


async def _run(command: str) -> str:
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise BadEncryptionKeys(f"{_COMMAND} {command!r} cannot be split into words: {error}") from None
    if not argv:
        raise BadEncryptionKeys(f"{_COMMAND} is empty")
    worker = tasks.Worker("encryption keys")
    try:
        done = await worker.run(lambda: commands.run_to_end(argv, limit=COMMAND_LIMIT))
        text = done.output.decode()
    except TimeoutError:
        raise BadEncryptionKeys(f"{_COMMAND} {argv[0]!r} has not ended within {COMMAND_LIMIT}") from None
    except UnicodeDecodeError:
        raise BadEncryptionKeys(f"{_COMMAND} {argv[0]!r} prints something that is not UTF-8") from None
    except OSError as error:
        raise BadEncryptionKeys(f"{_COMMAND} {argv[0]!r} cannot be started: {error.strerror or error}") from None
    finally:
        worker.close()
    if done.code != 0:
        said = done.errors.decode(errors="replace").strip()[:_ERRORS_SHOWN]
        raise BadEncryptionKeys(f"{_COMMAND} {argv[0]!r} ended with {done.code}: {said or 'it says nothing'}")
    return text
