"""Reading encryption keys from files and from a command: what is accepted, and that no message shows a key."""

from base64 import b64encode
from pathlib import Path

import pytest

from mainstay.server import encryption_keys
from mainstay.server.encryption_keys import BadEncryptionKeys, KeyCommand, KeyFiles, open_key_ring
from mainstay.store.sealer import PLAIN_ID

SECRET = b64encode(bytes(range(32))).decode()
OTHER = b64encode(bytes(range(32, 64))).decode()

pytestmark = pytest.mark.real_loop


async def test_keys_come_in_the_order_of_lines_and_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"# Of this month.\n2026-11:{SECRET}\n\n")
    (tmp_path / "b").write_text(f"  2026-05: {OTHER}  ")
    ring = await open_key_ring(KeyFiles((tmp_path / "a", tmp_path / "b")))
    assert ring.key_ids == ("2026-11", "2026-05")


async def test_the_word_none_turns_encryption_off(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"none\nold:{SECRET}\n")
    ring = await open_key_ring(KeyFiles((tmp_path / "a",)))
    assert ring.key_ids == (PLAIN_ID, "old")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no encryption key"),
        (SECRET, "line 1 is not ID:BASE64"),
        (f"# x\nid:{SECRET}!", "line 2: the key 'id' is not in base64"),
        (f"id:{SECRET[:20]}", "'id' has 15 bytes: 32 are needed"),
        (f"id:{SECRET}\nid:{OTHER}", "two encryption keys have the id 'id'"),
        (f"id:{SECRET}\nnone", "may only be the first"),
        ("none", "needs another key after it"),
    ],
)
async def test_what_cannot_be_used_is_named_without_showing_it(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "keys").write_text(text)
    with pytest.raises(BadEncryptionKeys, match=problem) as refused:
        await open_key_ring(KeyFiles((tmp_path / "keys",)))
    assert SECRET[:8] not in str(refused.value)


async def test_a_command_prints_the_keys() -> None:
    ring = await open_key_ring(KeyCommand(f"printf 'a:{SECRET}\\nb:{OTHER}\\n'"))
    assert ring.key_ids == ("a", "b")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/no/such/program", "cannot be started"),
        ("sh -c 'echo the vault is closed >&2; exit 3'", "ended with 3: the vault is closed"),
        ("'", "cannot be split into words"),
        (" ", "is empty"),
        ("sleep 600", "has not ended within"),
    ],
)
async def test_a_command_that_fails_says_how(command: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption_keys, "COMMAND_LIMIT", encryption_keys.COMMAND_LIMIT / 300)
    with pytest.raises(BadEncryptionKeys, match=problem):
        await open_key_ring(KeyCommand(command))
