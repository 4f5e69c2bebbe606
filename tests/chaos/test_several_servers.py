"""Two API servers over one etcd, and a load balancer in front of them: clients do not notice which one they talk to."""

import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.server_process import ServerProcess
from tests.processes import eventually
from tests.requirements import needs
from tests.store.etcd_process import EtcdProcess

pytestmark = [pytest.mark.slow, needs("kubectl"), needs("etcd")]

KEYS = ("ca.crt", "ca.key", "service-account.key")


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class Site:
    def __init__(self, etcd: EtcdProcess, stack: ExitStack) -> None:
        self._stack = stack
        self._balanced = f"127.0.0.1:{find_port()}"
        self._addresses = [f"127.0.0.1:{find_port()}" for _ in range(2)]
        options = (f"--store=etcd=http://{etcd.endpoint}", f"--advertise-url=https://{self._balanced}")
        self.first, self.second = (ServerProcess(*options, f"--listen={each}") for each in self._addresses)
        for server in (self.first, self.second):
            stack.callback(server.stop)

    def copy_keys(self) -> None:
        self.second.data_dir.mkdir(exist_ok=True)
        for name in KEYS:
            shutil.copy(self.first.data_dir / name, self.second.data_dir / name)

    def balance(self) -> None:
        command = [sys.executable, "-m", "tests.chaos.balancer", self._balanced, *self._addresses]
        balancer = subprocess.Popen(command)
        self._stack.callback(balancer.wait)
        self._stack.callback(balancer.terminate)
        eventually(self._is_balanced)

    def _is_balanced(self) -> bool:
        host, _, port = self._balanced.rpartition(":")
        with socket.socket() as tried:
            return tried.connect_ex((host, int(port))) == 0

    def can_list(self, token: str) -> bool:
        """By the token alone, without the certificate of the administrator."""
        url = f"https://{self._balanced}/api/v1/namespaces/default/configmaps"
        asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        trust = ssl.create_default_context(cafile=str(self.first.data_dir / "ca.crt"))
        try:
            with urllib.request.urlopen(asked, context=trust, timeout=20) as answer:
                return bool(answer.status == 200)
        except urllib.error.HTTPError as error:
            if error.code != 403:  # The binding may not be known there yet.
                raise
            return False

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = subprocess.run(
            ["kubectl", *arguments],
            input=given,
            env=self.first.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout


@pytest.fixture
def site() -> Iterator[Site]:
    with EtcdProcess() as etcd, ExitStack() as stack:
        yield Site(etcd, stack)


def test_a_second_server_with_keys_of_its_own_is_refused_and_told_which_to_copy(site: Site):
    site.first.start()
    with pytest.raises(RuntimeError, match=r"another ca.crt and ca.key and service-account.key than this data dir"):
        site.second.start()
    site.copy_keys()
    site.second.start()


def test_clients_of_the_load_balancer_go_on_when_a_server_is_killed_and_do_not_notice_which_one_answers(site: Site):
    site.first.start()
    site.copy_keys()
    site.second.start()
    site.balance()
    site.kubectl("create", "serviceaccount", "robot")
    site.kubectl("create", "clusterrolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
    token = site.kubectl("create", "token", "robot").strip()
    # Each connection goes to the other server: the token of one is good at both.
    for _ in range(4):
        eventually(lambda: site.can_list(token))
    for number in range(6):
        site.kubectl("create", "configmap", f"before-{number}")
    site.first.kill()
    for number in range(4):
        site.kubectl("create", "configmap", f"after-{number}")
    site.first.start()
    site.second.kill()
    found = site.kubectl("get", "configmaps", "-o", "name").split()
    assert len([name for name in found if "before" in name or "after" in name]) == 10
