"""The credential of an agent: its file, when it is renewed, and what joining refuses before it shows the token."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from mainstay.agent import join
from mainstay.agent.credential_file import FILE, KEY_FILE, read_credential, render_key, write_credential
from mainstay.agent.credential_rotation import find_renewal
from mainstay.client.config import BadConfig
from mainstay.http.certificates import ensure_key
from mainstay.server.auth.request_signer import Validity, parse_request
from mainstay.sim.simulation import Simulation
from tests.server.auth.authority import NODE_CLIENT, a_key, an_authority

ISSUED = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_node_certificate(node: str, key: Any, until: datetime) -> str:
    signer = an_authority().signer
    assert signer is not None
    request = parse_request(join.build_request(node, key))
    return signer.sign(request, NODE_CLIENT, Validity(ISSUED - timedelta(hours=1), until), 7).pem


async def test_what_is_stored_is_read_again_and_the_key_of_the_request_is_gone(sim: Simulation):
    disk = sim.env("node").disk
    assert read_credential(disk) is None
    key = ensure_key(disk, KEY_FILE)
    until = ISSUED + timedelta(days=30)
    certificate = a_node_certificate("worker-2", key, until)
    write_credential(disk, "https://10.0.0.1:6443", an_authority().authorities, certificate, render_key(key))
    found = read_credential(disk)
    assert found is not None
    assert (found.node, found.not_after) == ("worker-2", until)
    assert found.config.servers == ("https://10.0.0.1:6443",)
    assert found.config.tls.authorities == an_authority().authorities
    assert disk.names() == [FILE]
    assert json.loads(disk.read(FILE))["kind"] == "Config"


async def test_a_damaged_credential_says_what_to_do(sim: Simulation):
    disk = sim.env("node").disk
    write_credential(disk, "https://10.0.0.1:6443", an_authority().authorities, "nonsense", "nonsense")
    with pytest.raises(BadConfig, match="join again"):
        read_credential(disk)


@pytest.mark.parametrize("lifetime", [timedelta(minutes=10), timedelta(days=1), timedelta(days=365)])
@pytest.mark.parametrize("backdated", [timedelta(hours=1), timedelta(0)])
def test_a_certificate_is_renewed_in_its_last_quarter(lifetime: timedelta, backdated: timedelta):
    begin, end = ISSUED - backdated, ISSUED + lifetime
    early, late = find_renewal(begin, end, 0.0), find_renewal(begin, end, 1.0)
    assert ISSUED + lifetime * 0.7 <= early < late <= ISSUED + lifetime * 0.9 + timedelta(hours=1) * 0.2
    assert late < end


def test_the_hash_of_an_authority_is_that_of_kubeadm():
    certificate = x509.load_pem_x509_certificate(an_authority().authorities.encode())
    found = join.compute_ca_hash(certificate)
    assert found.startswith("sha256:")
    assert len(found) == len("sha256:") + 64
    assert found == join.compute_ca_hash(certificate)


async def test_only_a_server_with_the_right_hash_is_believed():
    right = join.compute_ca_hash(x509.load_pem_x509_certificate(an_authority().authorities.encode()))
    both = an_authority().authorities * 2
    join._require_hashes(both, [right], "https://s")
    join._require_hashes(both, [right.upper().replace("SHA256", "sha256")], "https://s")
    with pytest.raises(join.CannotJoin, match="man in the middle"):
        join._require_hashes(both, ["sha256:" + "0" * 64], "https://s")
    with pytest.raises(join.CannotJoin, match="man in the middle"):
        join._require_hashes(both, [], "https://s")


def test_a_clock_that_differs_is_named():
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    join._require_clock("Thu, 01 Jan 2026 12:04:00 GMT", now, "https://s")
    join._require_clock("", now, "https://s")
    with pytest.raises(join.CannotJoin, match="set it"):
        join._require_clock("Thu, 01 Jan 2026 12:06:00 GMT", now, "https://s")


def test_a_request_is_for_the_agent_of_the_node():
    found = parse_request(join.build_request("worker-2", a_key("machine")))
    assert (found.user, found.groups, found.node) == ("system:node:worker-2", ("system:nodes",), "worker-2")
