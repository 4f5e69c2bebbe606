"""A real etcd with TLS, client certificates and users: who gets in, who is told what to change, and what is renewed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mainstay.env import Chance, SystemClock, tasks
from mainstay.store.errors import OutcomeUnknown, StoreAccessDenied, StoreUnavailable
from mainstay.store.etcd import EtcdStore, open_etcd
from mainstay.store.etcd.access import EtcdAccess, EtcdTlsFiles, require_usable
from mainstay.store.etcd.backoff import FIRST
from mainstay.store.interface import Committed, Put
from tests.requirements import needs
from tests.store.etcd_process import EtcdProcess, unique_prefix
from tests.store.secure_etcd import PastClock, SecureEtcd, make_certificates, shared_secure_etcd, tls_files

pytestmark = [needs("etcd"), pytest.mark.real_loop]


@pytest.fixture
def etcd() -> SecureEtcd:
    return shared_secure_etcd()


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Certificates of an authority that etcd does not know."""
    make_certificates(tmp_path / "other")
    return tmp_path / "other"


async def open_store(etcd: SecureEtcd, access: EtcdAccess) -> EtcdStore:
    return await open_etcd([etcd.endpoint], unique_prefix(), chance=Chance(b"test"), access=access)


async def test_a_user_with_rights_reads_writes_watches_and_compacts(etcd: SecureEtcd) -> None:
    store = await open_store(etcd, etcd.access())
    first = await store.commit([], [Put("a", b"1")])
    assert isinstance(first, Committed)
    with store.watch("", after=first.revision) as watch:
        second = await store.commit([], [Put("a", b"2")])
        assert isinstance(second, Committed)
        assert (await anext(watch)).revision == second.revision
    assert await store.compact(first.revision) >= first.revision
    await store.close()


async def expect_denied(etcd: SecureEtcd, access: EtcdAccess, *parts: str) -> None:
    async with tasks.timeout(FIRST * 40):  # At once, and not when something has timed out.
        with pytest.raises(StoreAccessDenied) as denied:
            await open_store(etcd, access)
    for part in parts:
        assert part in str(denied.value)


async def test_an_etcd_of_another_ca_is_not_trusted(etcd: SecureEtcd, other: Path) -> None:
    access = replace(etcd.access(), tls=tls_files(etcd.directory, authority=other))
    await expect_denied(etcd, access, "not signed by the CA in --etcd-ca")


async def test_a_client_without_a_certificate_is_told_to_show_one(etcd: SecureEtcd) -> None:
    access = replace(etcd.access(), tls=tls_files(etcd.directory, shows=False))
    await expect_denied(etcd, access, "--etcd-cert")


async def test_a_client_certificate_of_another_ca_is_rejected(etcd: SecureEtcd, other: Path) -> None:
    files = EtcdTlsFiles(etcd.directory / "ca.crt", other / "client.crt", other / "client.key")
    await expect_denied(etcd, replace(etcd.access(), tls=files), "etcd rejects the client certificate", "--etcd-cert")


async def test_a_wrong_password_is_named(etcd: SecureEtcd) -> None:
    await expect_denied(etcd, etcd.access(password="guess"), "invalid user ID or password", "--etcd-password-file")


@pytest.mark.parametrize("user", ["reader", "stranger"])
async def test_a_user_without_the_right_to_write_is_told_so_before_anything_is_served(
    etcd: SecureEtcd, user: str
) -> None:
    await expect_denied(etcd, etcd.access(user), "permission denied", "readwrite")


async def test_tls_to_an_etcd_without_it_is_told_so(etcd: SecureEtcd) -> None:
    with EtcdProcess() as plain, pytest.raises(StoreAccessDenied, match="write http://"):
        await open_etcd([plain.endpoint], chance=Chance(b"test"), access=etcd.access())


@pytest.mark.slow
async def test_plain_http_to_an_etcd_with_tls_hints_at_it(etcd: SecureEtcd) -> None:
    with pytest.raises(StoreUnavailable, match="if it speaks TLS, write https://"):
        await open_etcd([etcd.endpoint], chance=Chance(b"test"))


# Tokens and certificates that end.


def signing_options(directory: Path) -> Iterator[str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private, public = directory / "jwt.key", directory / "jwt.pub"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    public.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    yield f"--auth-token=jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=1s"


async def put_until_done(store: EtcdStore, key: str) -> None:
    while True:
        try:
            await store.commit([], [Put(key, b"")])
            return
        except (OutcomeUnknown, StoreUnavailable):
            await tasks.sleep(FIRST)


@pytest.mark.slow
async def test_an_expired_jwt_is_renewed_for_writes_and_for_watches(tmp_path: Path) -> None:
    with SecureEtcd(*signing_options(tmp_path)) as etcd:
        store = await open_store(etcd, etcd.access())
        first = await store.commit([], [Put("a", b"")])
        assert isinstance(first, Committed)
        await tasks.sleep(FIRST * 44)  # 2.2 s of real time: etcd's own clock says when a token is over.

        with store.watch("", after=first.revision) as watch:
            second = await store.commit([], [Put("b", b"")])  # Refused with its old token, and repeated with a new one.
            assert isinstance(second, Committed)
            assert (await anext(watch)).revision == second.revision
        await store.close()


@pytest.mark.slow
async def test_a_simple_token_that_a_restarted_etcd_does_not_know_is_renewed() -> None:
    with SecureEtcd() as etcd:
        store = await open_store(etcd, etcd.access())
        first = await store.commit([], [Put("a", b"")])
        assert isinstance(first, Committed)
        with store.watch("", after=first.revision) as watch:
            etcd.process.kill()
            etcd.process.start()
            await put_until_done(store, "b")
            assert [change.key for change in (await anext(watch)).changes] == ["b"]
        await store.close()


@pytest.mark.slow
async def test_renewed_certificates_are_taken_up_with_the_next_connection() -> None:
    with SecureEtcd(has_users=False) as etcd:
        store = await open_store(etcd, etcd.access())
        for path in etcd.directory.iterdir():
            path.unlink()
        make_certificates(etcd.directory)  # Another authority: nothing of before is accepted any more.
        etcd.process.kill()
        etcd.process.start()
        await put_until_done(store, "a")
        await store.close()


# The files, before anything is sent.


def test_files_that_cannot_be_used_are_named_with_their_option(tmp_path: Path, other: Path) -> None:
    good = tls_files(other)
    (tmp_path / "empty").write_text("")
    make_certificates(tmp_path / "past", PastClock())
    past = tmp_path / "past"
    now = SystemClock().wall()
    require_usable(EtcdAccess(good), now)
    for files, problem in (
        (replace(good, authority=tmp_path / "none"), "cannot read --etcd-ca"),
        (replace(good, authority=tmp_path / "empty"), "--etcd-ca .* has no certificate"),
        (replace(good, certificate=past / "client.crt", key=past / "client.key"), "--etcd-cert .* expired at"),
        (replace(good, key=past / "client.key"), "is not the key of --etcd-cert"),
        (replace(good, key=tmp_path / "empty"), "--etcd-key .* is not a private key"),
    ):
        with pytest.raises(StoreAccessDenied, match=problem):
            require_usable(EtcdAccess(files), now)
