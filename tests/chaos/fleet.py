"""A fleet on one machine: three etcd members with TLS and users, two API servers behind a balancer, two schedulers, two
controller processes and five agents that have joined by token, each part on a machine (network namespace) of its own.

    with Fleet() as fleet:
        fleet.processes["etcd-1"].kill()
        fleet.processes["etcd-1"].start()
        fleet.lan.cut(fleet.processes["node-3"].machine)
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mainstay.env import SystemClock, SystemDisk
from mainstay.http.certificates import alternatives, build_subject_name, key_pem, pem, unsigned
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import VALID, ensure_certificates, issue_client
from tests.chaos import releases
from tests.chaos.cluster import allow_host_paths
from tests.chaos.lan import Lan, LanMachine
from tests.processes import eventually

ETCD = ("etcd-0", "etcd-1", "etcd-2")
SPARE = "etcd-3"
SERVERS = ("server-0", "server-1")
SCHEDULERS = ("scheduler-0", "scheduler-1")
CONTROLLERS = ("controllers-0", "controllers-1")
NODES = tuple(f"node-{number}" for number in range(5))
KEYS = ("ca.crt", "ca.key", "service-account.key")
PORT = 6443
LEASE = ("--lease-duration=20s", "--renew-every=4s", "--stopping=4s")
COMMAND_LIMIT_S = 120


class FleetProcess:
    """One process on a machine. What it runs may change from start to start."""

    def __init__(self, name: str, machine: LanMachine, log: Path, command: list[str]) -> None:
        self.name = name
        self.machine = machine
        self.command = command
        self.environment: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(log.parent)}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.machine.prefix, *self.command],
                env=self.environment,
                cwd=self._log.parent,
                stdout=log,
                stderr=log,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def freeze(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


def mainstay(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "mainstay.cli.main", *arguments]


class Fleet:
    def __init__(self, *, release: str = "") -> None:
        """`release`: schedulers and controllers are of that one, until they are upgraded."""
        self.directory = Path(tempfile.mkdtemp(prefix="mainstay-fleet-"))
        self.shared = self.directory / "shared"
        self.shared.mkdir()
        self.shared.chmod(0o777)
        self.logs = self.directory / "logs"
        self.logs.mkdir()
        names = (*ETCD, SPARE, *SERVERS, *SCHEDULERS, *CONTROLLERS, *NODES)
        self.lan = Lan(len(names))
        self.machines = dict(zip(names, self.lan.machines, strict=True))
        self.processes: dict[str, FleetProcess] = {}
        self.url = f"https://{Lan.host_address}:{PORT}"
        self._release = release
        self._balancer: subprocess.Popen[bytes] | None = None
        self._certificates = self.directory / "etcd-certificates"
        self._is_kept = False

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "server-0" / "kubeconfig"

    @property
    def environment(self) -> Mapping[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.directory), "KUBECONFIG": str(self.kubeconfig)}

    def keep(self) -> None:
        """Leave everything on the disk that could tell what happened."""
        self._is_kept = True

    def __enter__(self) -> Self:
        self.lan.__enter__()
        try:
            self._start_etcd()
            self._start_servers()
            self._start_deciders()
            self._start_agents()
            allow_host_paths(self.kubectl)
        except BaseException:
            self.keep()
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in NODES:
            if name in self.processes:
                self.processes[name].thaw()
                self.processes[name].stop()
                subprocess.run(
                    [*self.machines[name].prefix, *mainstay("agent", f"--name={name}", "--clean"),
                     f"--data-dir={self.directory / name}"],
                    env=self.environment, capture_output=True, timeout=COMMAND_LIMIT_S, check=False,
                )  # fmt: skip
        for process in self.processes.values():
            process.thaw()
            process.kill()
        if self._balancer is not None:
            self._balancer.terminate()
            self._balancer.wait()
        self.lan.__exit__(None, None, None)
        if not self._is_kept:
            shutil.rmtree(self.directory)

    # Commands, as a user gives them.

    def kubectl(self, *arguments: str, given: str = "") -> str:
        return self._run(["kubectl", *arguments], given)

    def mainstay(self, *arguments: str) -> str:
        return self._run(mainstay(*arguments))

    def _run(self, command: list[str], given: str = "") -> str:
        done = subprocess.run(
            command,
            input=given,
            env=self.environment,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    # Parts.

    def _add(self, name: str, command: list[str]) -> FleetProcess:
        process = FleetProcess(name, self.machines[name], self.logs / f"{name}.log", command)
        self.processes[name] = process
        return process

    def _start_etcd(self) -> None:
        disk = SystemDisk(self._certificates)
        names = ["127.0.0.1", *(self.machines[name].address for name in (*ETCD, SPARE))]
        ensure_certificates(disk, SystemClock(), names)
        issued = issue_client(disk, SystemClock(), User("client", ()))
        disk.close()
        (self._certificates / "client.crt").write_bytes(issued.certificate)
        (self._certificates / "client.key").write_bytes(issued.key)
        _make_peer_certificate(self._certificates, names)
        members = ",".join(f"{name}={self._peer_url(name)}" for name in ETCD)
        for name in ETCD:
            self._add(name, self._etcd_command(name, members, "new")).start()
        for name in ETCD:
            eventually(partial(self.is_healthy, name), 60)

    def _peer_url(self, name: str) -> str:
        return f"https://{self.machines[name].address}:2380"

    def _client_url(self, name: str) -> str:
        return f"https://{self.machines[name].address}:2379"

    def _etcd_command(self, name: str, members: str, state: str) -> list[str]:
        files = self._certificates
        return [
            "etcd",
            f"--name={name}",
            f"--data-dir={self.directory / name}",
            f"--listen-client-urls={self._client_url(name)}",
            f"--advertise-client-urls={self._client_url(name)}",
            f"--listen-peer-urls={self._peer_url(name)}",
            f"--initial-advertise-peer-urls={self._peer_url(name)}",
            f"--initial-cluster={members}",
            f"--initial-cluster-state={state}",
            "--client-cert-auth",
            f"--trusted-ca-file={files / 'ca.crt'}",
            f"--peer-trusted-ca-file={files / 'ca.crt'}",
            f"--cert-file={files / 'peer.crt'}",
            f"--key-file={files / 'peer.key'}",
            "--peer-client-cert-auth",
            f"--peer-cert-file={files / 'peer.crt'}",
            f"--peer-key-file={files / 'peer.key'}",
        ]

    def is_healthy(self, name: str) -> bool:
        try:
            return bool(self.ask_etcd(name, "/health", None).get("health") == "true")
        except (OSError, urllib.error.URLError):
            return False

    def ask_etcd(self, name: str, path: str, body: Any) -> Any:
        """Ask a member by its JSON gateway."""
        files = self._certificates
        trust = ssl.create_default_context(cafile=str(files / "ca.crt"))
        trust.load_cert_chain(files / "client.crt", files / "client.key")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(self._client_url(name) + path, data, timeout=10, context=trust) as answer:
            return json.loads(answer.read())

    def replace_member(self, lost: str) -> None:
        """A member is lost for good, with its disk: another one takes its place."""
        self.processes.pop(lost).kill()
        shutil.rmtree(self.directory / lost)
        others = [name for name in ETCD if name != lost]
        eventually(partial(self._change_members, others, lost), 90)
        names = [*(name for name in ETCD if name != lost), SPARE]
        known = ",".join(f"{name}={self._peer_url(name)}" for name in names)
        self._add(SPARE, self._etcd_command(SPARE, known, "existing")).start()
        eventually(lambda: self.is_healthy(SPARE), 60)

    def _change_members(self, others: Sequence[str], lost: str) -> bool:
        """Remove a member and announce the spare one, as far as that is not done yet. False: ask again."""
        try:
            members = self.ask_etcd(others[0], "/v3/cluster/member/list", {})["members"]
            for gone in [each["ID"] for each in members if each.get("name") == lost]:
                self.ask_etcd(others[0], "/v3/cluster/member/remove", {"ID": gone})
            if not any(self._peer_url(SPARE) in each["peerURLs"] for each in members):
                self.ask_etcd(others[1], "/v3/cluster/member/add", {"peerURLs": [self._peer_url(SPARE)]})
        except OSError:  # They elect a leader.
            return False
        return True

    def _start_servers(self) -> None:
        files = self._certificates
        urls = ",".join(self._client_url(name) for name in (*ETCD, SPARE))
        for name in SERVERS:
            data_dir, address = self.directory / name, self.machines[name].address
            if name != SERVERS[0]:
                data_dir.mkdir()
                for key in KEYS:
                    shutil.copy(self.directory / SERVERS[0] / key, data_dir / key)
            command = mainstay(
                "server", f"--data-dir={data_dir}", f"--listen={address}:{PORT}", f"--advertise-url={self.url}",
                f"--store=etcd={urls}", f"--etcd-ca={files / 'ca.crt'}", f"--etcd-cert={files / 'client.crt'}",
                f"--etcd-key={files / 'client.key'}",
            )  # fmt: skip
            self._add(name, command).start()
            eventually(partial(self.machines[name].listens, PORT), 60)
        backends = [f"{self.machines[name].address}:{PORT}" for name in SERVERS]
        command = [sys.executable, "-m", "tests.chaos.balancer", f"{Lan.host_address}:{PORT}", *backends]
        self._balancer = subprocess.Popen(command)
        eventually(lambda: "kube-system" in self._try("get", "namespaces"), 60)

    def _try(self, *arguments: str) -> str:
        try:
            return self.kubectl(*arguments)
        except AssertionError:
            return ""

    def _start_deciders(self) -> None:
        for name in (*SCHEDULERS, *CONTROLLERS):
            program = name.partition("-")[0]
            options = ("--share", f"--instance={name}") if program == "scheduler" else (f"--instance={name}",)
            kubeconfig = self.kubeconfig
            process = self._add(
                name,
                mainstay(program, *options, f"--kubeconfig={kubeconfig}"),
            )
            if self._release:
                process.environment = {**process.environment, "PYTHONPATH": str(releases.extract(self._release))}
            process.start()

    def upgrade(self, name: str) -> None:
        """Restart a process with this build."""
        process = self.processes[name]
        process.stop()
        process.environment = {key: value for key, value in process.environment.items() if key != "PYTHONPATH"}
        process.start()

    def _start_agents(self) -> None:
        for number, name in enumerate(NODES):
            joined = self.mainstay("token", "create", f"--node={name}", "--print-join-command").split()
            command = mainstay(
                *joined[1:], f"--name={name}", f"--data-dir={self.directory / name}", f"--zone=zone-{number % 3}",
                f"--pod-cidr=10.244.{number}.0/24", f"--address={self.machines[name].address}", *LEASE,
            )  # fmt: skip
            self._add(name, command).start()
        for name in NODES:
            eventually(partial(self._try, "get", "node", name), 90)
            self.kubectl("wait", f"node/{name}", "--for=condition=Ready", "--timeout=90s")


def _make_peer_certificate(directory: Path, names: list[str]) -> None:
    """For members, which are servers and each other's clients: signed by the authority in the directory."""
    authority = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((directory / "ca.key").read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = unsigned(
        build_subject_name({NameOID.COMMON_NAME: ["member"]}), authority.subject, key.public_key(), now, now + VALID
    )
    builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    certificate = builder.add_extension(alternatives(names), critical=False).sign(signer, hashes.SHA256())
    (directory / "peer.crt").write_bytes(pem(certificate))
    (directory / "peer.key").write_bytes(key_pem(key))
