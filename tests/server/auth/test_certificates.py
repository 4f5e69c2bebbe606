"""Certificates that a server makes for itself, and the kubeconfig with them."""

import ssl
import stat
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mainstay.env import Disk, SystemDisk
from mainstay.server.auth.certificates import (
    BadCertificate,
    Certificates,
    ensure_certificates,
    names_of_server,
    tls_context,
    write_whole,
)
from mainstay.server.auth.kubeconfig import ByCertificate, ByToken, kubeconfig_text, server_url, write_kubeconfigs
from mainstay.sim.disk import PowerLost
from mainstay.sim.simulation import Simulation

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
NAMES = names_of_server("10.1.2.3", "bigbox")


class StoppedClock:
    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def wall(self) -> datetime:
        return self.now

    def monotonic_ns(self) -> int:
        raise AssertionError("certificates are about dates")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SystemDisk]:
    disk = SystemDisk(tmp_path / "data")
    yield disk
    disk.close()


def ensure(disk: Disk, now: datetime = NOON, names: list[str] = NAMES) -> Certificates:
    return ensure_certificates(disk, StoppedClock(now), names)


def certificate_of(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def lifetime_of(pem: bytes) -> timedelta:
    return certificate_of(pem).not_valid_after_utc - NOON


def names_in(pem: bytes) -> list[str]:
    names = certificate_of(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def admin_on(disk: Disk, now: datetime = NOON, name: str = "kubeconfig") -> bytes:
    """The certificate in a kubeconfig."""
    authorities = disk.read("ca.crt")
    write_kubeconfigs(disk, StoppedClock(now), "https://127.0.0.1:6443", authorities, has_tls=True)
    [user] = yaml.safe_load(disk.read(name))["users"]
    return b64decode(user["user"]["client-certificate-data"])


def test_the_first_start_makes_an_authority_and_what_it_signs(disk: SystemDisk):
    made = ensure(disk)

    stems = ("agents", "ca", "server")
    assert disk.names() == [f"{stem}.{kind}" for stem in stems for kind in ("crt", "key")]
    authority = certificate_of(made.authority)
    admin = admin_on(disk)
    for pem in (made.server, admin):
        certificate_of(pem).verify_directly_issued_by(authority)
    assert lifetime_of(made.authority) == timedelta(days=3650)
    assert lifetime_of(made.server) == lifetime_of(admin) == timedelta(days=365)
    keys = [certificate_of(pem).public_key() for pem in (made.authority, made.server, admin)]
    assert [isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name for key in keys] == ["secp256r1"] * 3


def test_the_administrator_is_named_as_tools_expect(disk: SystemDisk):
    ensure(disk)
    subject = certificate_of(admin_on(disk)).subject

    assert [(each.oid, each.value) for each in subject] == [
        (NameOID.ORGANIZATION_NAME, "system:masters"),
        (NameOID.COMMON_NAME, "kubernetes-admin"),
    ]


def test_components_have_identities_without_full_access(disk: SystemDisk):
    ensure(disk)

    subjects = [
        certificate_of(admin_on(disk, name=f"{stem}.kubeconfig")).subject.rfc4514_string()
        for stem in ("scheduler", "controllers")
    ]
    assert subjects == ["CN=system:kube-scheduler", "CN=system:kube-controller-manager"]


def test_only_the_owner_may_read_what_is_written(disk: SystemDisk):
    ensure(disk)
    write_kubeconfigs(disk, StoppedClock(), "http://127.0.0.1:6443", b"", has_tls=False)

    modes = {name: stat.S_IMODE((disk.root / name).stat().st_mode) for name in disk.names()}
    assert modes == dict.fromkeys(disk.names(), 0o600)


def test_a_server_has_the_names_under_which_it_is_found(disk: SystemDisk):
    assert names_in(ensure(disk).server) == [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "10.96.0.1",
        "bigbox",
        "10.1.2.3",
    ]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "localhost", "127.0.0.1"])
def test_listening_everywhere_or_locally_adds_no_name(host: str):
    assert names_of_server(host, "bigbox") == [name for name in NAMES if name != "10.1.2.3"]


def test_a_second_start_changes_nothing(disk: SystemDisk):
    first, admin = ensure(disk), admin_on(disk)
    later = NOON + timedelta(days=200)

    assert (ensure(disk, later), admin_on(disk, later)) == (first, admin)


def test_what_is_about_to_expire_is_made_again_with_the_same_authority(disk: SystemDisk):
    first = ensure(disk)
    admin_on(disk)
    later = NOON + timedelta(days=320)

    second = ensure(disk, later)

    assert second.authority == first.authority
    assert lifetime_of(second.server) == lifetime_of(admin_on(disk, later)) == timedelta(days=320 + 365)


def test_other_names_make_another_serving_certificate_only(disk: SystemDisk):
    first, admin = ensure(disk), admin_on(disk)

    second = ensure(disk, names=["elsewhere"])

    assert names_in(second.server) == ["elsewhere"]
    assert (second.authority, admin_on(disk)) == (first.authority, admin)


def test_nothing_outlives_its_authority_and_nothing_is_made_again_for_that(disk: SystemDisk):
    ensure(disk)
    late = NOON + timedelta(days=3640)

    made = ensure(disk, late)

    assert lifetime_of(made.server) == timedelta(days=3650)
    assert ensure(disk, late + timedelta(days=1)) == made


def test_a_new_authority_signs_everything_again(disk: SystemDisk):
    first = ensure(disk)
    admin_on(disk)
    disk.remove("ca.crt")
    disk.remove("ca.key")

    second = ensure(disk)

    authority = certificate_of(second.authority)
    assert second.authority != first.authority
    for pem in (second.server, admin_on(disk)):
        certificate_of(pem).verify_directly_issued_by(authority)


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ({"ca.key": None}, "ca.crt exists without ca.key"),
        ({"ca.key": "server.key"}, "ca.key is not the key of ca.crt"),
        ({"ca.crt": "ca.key"}, "ca.crt is not a certificate"),
        ({"server.key": "ca.crt"}, "server.key is not a key"),
    ],
)
def test_files_that_do_not_fit_are_refused_rather_than_replaced(
    disk: SystemDisk, spoilt: dict[str, str | None], why: str
):
    ensure(disk)
    for name, source in spoilt.items():
        data = b"" if source is None else disk.read(source)
        disk.remove(name)
        if source is not None:
            disk.append(name, data)

    with pytest.raises(BadCertificate, match=why):
        ensure(disk)


def test_an_expired_authority_is_not_replaced_behind_the_back_of_its_clients(disk: SystemDisk):
    ensure(disk)

    with pytest.raises(BadCertificate, match="has expired at 2039-12-30: remove"):
        ensure(disk, NOON + timedelta(days=3651))


async def test_after_a_power_cut_anywhere_the_next_start_finds_what_it_needs(sim: Simulation):
    for operation in count(1):
        disk = sim.env(f"server-{operation}").disk
        sim.get_disk(f"server-{operation}").cut_power_before(operation)
        try:
            ensure(disk)
        except PowerLost:
            disk = sim.env(f"server-{operation}", 1).disk
        else:
            break  # It was done before the cut came.

        made = ensure(disk)

        certificate_of(made.server).verify_directly_issued_by(certificate_of(made.authority))
        assert made == ensure(disk)
    assert operation > 20


# TLS.


def test_a_context_takes_client_certificates_but_does_not_insist(disk: SystemDisk):
    made = ensure(disk)

    context = tls_context(disk.root / "server.crt", disk.root / "server.key", made.authority)

    assert context.verify_mode is ssl.CERT_OPTIONAL
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        ("server.crt", "agents.key", "agents.key is not the key of .*server.crt"),
        ("server.key", "server.crt", "are not a certificate and key"),
        ("server.crt", "missing.key", "cannot read .*: No such file"),
        ("server.crt", "locked.key", "has a passphrase; remove it"),
    ],
)
def test_a_pair_that_cannot_be_used_is_refused_in_plain_words(disk: SystemDisk, certificate: str, key: str, why: str):
    made = ensure(disk)
    locked = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    disk.append("locked.key", locked)

    with pytest.raises(BadCertificate, match=why):
        tls_context(disk.root / certificate, disk.root / key, made.authority)


def test_client_authorities_must_be_certificates(disk: SystemDisk):
    ensure(disk)

    with pytest.raises(BadCertificate, match="client CA file"):
        tls_context(disk.root / "server.crt", disk.root / "server.key", b"nonsense")


# Kubeconfig.


def test_a_kubeconfig_is_complete_in_itself():
    text = kubeconfig_text("https://127.0.0.1:6443", ByCertificate(b"authority", b"certificate", b"key"))

    config = yaml.safe_load(text)
    (cluster,), (user,), (context,) = config["clusters"], config["users"], config["contexts"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    assert b64decode(cluster["cluster"]["certificate-authority-data"]) == b"authority"
    assert b64decode(user["user"]["client-certificate-data"]) == b"certificate"
    assert b64decode(user["user"]["client-key-data"]) == b"key"
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert config["current-context"] == context["name"]


def test_without_tls_it_has_a_token():
    config = yaml.safe_load(kubeconfig_text("http://127.0.0.1:6443", ByToken("abc")))

    assert config["users"][0]["user"] == {"token": "abc"}
    assert config["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:6443"}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("10.1.2.3", "https://10.1.2.3:6443"),
        ("0.0.0.0", "https://127.0.0.1:6443"),
        ("::", "https://[::1]:6443"),
        ("fe80::1", "https://[fe80::1]:6443"),
        ("bigbox", "https://bigbox:6443"),
    ],
)
def test_clients_on_the_machine_are_told_an_address_they_can_reach(host: str, url: str):
    assert server_url("https", host, 6443) == url


def test_what_is_written_replaces_what_was_there(disk: SystemDisk):
    disk.append("unfinished", b"left by a crash")

    write_whole(disk, "a", b"one")
    write_whole(disk, "a", b"two")

    assert (disk.names(), disk.read("a")) == (["a"], b"two")
