"""kubectl approves and denies certificate requests, and the certificate works."""

import base64
import subprocess
import tempfile
from pathlib import Path

import pytest

from mainstay.agent.credential_file import render_key
from tests.clients.server_process import shared_server, unique_name
from tests.requirements import needs
from tests.server.auth.authority import CLIENT, a_key, a_signing_request

pytestmark = [pytest.mark.slow, needs("kubectl")]


def a_request(name: str, user: str) -> str:
    request = a_signing_request(user, ("devs",), user)
    return f"""
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: {name}}}
spec: {{request: {request}, signerName: {CLIENT}, usages: [client auth], expirationSeconds: 3600}}
"""


def kubectl(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = shared_server().environment
    return subprocess.run(
        ["kubectl", *arguments], input=given, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_an_approved_request_is_a_credential_and_a_denied_one_is_not():
    name, other = unique_name("jane"), unique_name("joe")
    for each in (name, other):
        assert kubectl("apply", "-f", "-", given=a_request(each, each)).returncode == 0
    assert "approved" in kubectl("certificate", "approve", name).stdout
    assert "denied" in kubectl("certificate", "deny", other).stdout
    shown = kubectl("get", "csr", name, other).stdout
    assert "Approved,Issued" in shown
    assert "Denied" in shown
    found = kubectl("get", "csr", name, "-o", "jsonpath={.status.certificate}").stdout
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Path(directory) / "user.crt", Path(directory) / "user.key"
        certificate.write_bytes(base64.b64decode(found))
        key.write_text(render_key(a_key(name)))
        files = [f"--client-certificate={certificate}", f"--client-key={key}"]
        authority = f"--certificate-authority={shared_server().data_dir / 'ca.crt'}"
        options = ["--kubeconfig=/dev/null", f"--server={shared_server().url}", authority, *files]
        assert name in kubectl("auth", "whoami", *options).stdout
    assert kubectl("get", "csr", other, "-o", "jsonpath={.status.certificate}").stdout == ""
    assert kubectl("certificate", "approve", other).returncode != 0
