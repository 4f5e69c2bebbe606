"""The server as a process: opened in order, closed in the reverse order.

    data directory ─► certificates ─► store ─► API ─► listening ─► kubeconfig

The kubeconfig comes last, because only then is the port known, and because a script that waits for that file can then
connect. Going down: no new connections, what was begun is finished or cut off after the grace, then the rest in
reverse order.

`ServerProcess` is for programs and tests that start and stop a server themselves; `serve` runs one until a signal says
otherwise. The command line is in cli/server.py.
"""

import contextlib
import errno
import logging
import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mainstay.api.pod_security_checks import SecurityLevel
from mainstay.env import Env, SystemDisk, machine, tasks, vital
from mainstay.env.build import build
from mainstay.env.disk import DiskFull, Locked, read_text
from mainstay.env.health import Health
from mainstay.env.signals import StopSignals
from mainstay.http.messages import Handler
from mainstay.http.outgoing import client_tls
from mainstay.http.server import HttpLimits, HttpServer
from mainstay.journal.errors import JournalError
from mainstay.server.auth import kubeconfig
from mainstay.server.auth.authentication import Authenticator
from mainstay.server.auth.authorization import User
from mainstay.server.auth.certificates import (
    VALID,
    BadCertificate,
    Certificates,
    ClusterAuthority,
    ensure_certificates,
    find_digest,
    load_certificate,
    names_of_server,
    open_authority,
    tls_context,
)
from mainstay.server.auth.shared_keys import require_shared_keys
from mainstay.server.auth.tokens import ensure_signing_key
from mainstay.server.decisions.journal import JournalLimits, ServerJournal, open_journal
from mainstay.server.decisions.otlp import NotInstalled, SpanSender
from mainstay.server.node_proxy.agents import Connector
from mainstay.server.request.app import Api
from mainstay.server.request.audit import Audit
from mainstay.server.request.metrics import Metrics
from mainstay.server.request.pipeline import PipelineOptions
from mainstay.server.storage.compaction import compact_regularly
from mainstay.server.store_choice import SQLITE, KeySource, MemoryChoice, StoreChoice, StoreOpening, wait_until_broken
from mainstay.store.errors import Corrupt, NewerFormat, StoreError
from mainstay.store.interface import Store

GRACE: Final = timedelta(seconds=10)
CERTIFICATES_LOOKED_AT_EVERY: Final = timedelta(hours=1)

_ANYWHERE: Final = ("", "0.0.0.0", "::")
_LOCK: Final = "server.lock"

_log = logging.getLogger(__name__)


class ServerCannotStart(Exception):
    """The server does not run. The message is for the user who started it, and says what to do."""


class StoreDamaged(ServerCannotStart):
    """The store is not all that it was: no restart helps, until a user has repaired or restored it."""


class CannotGoOn(Exception):
    """The server has ended by itself, and is to be started again."""


@dataclass(frozen=True, slots=True)
class OwnTls:
    """Certificates that the server makes itself."""


@dataclass(frozen=True, slots=True)
class GivenTls:
    """Certificates from elsewhere. Clients of the server's own authority are known besides those of the given one."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


@dataclass(frozen=True, slots=True)
class NoTls:
    """Plain HTTP."""


Tls = OwnTls | GivenTls | NoTls


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    data_dir: Path
    """Where `env.disk` is."""
    host: str
    port: int
    """0 takes any free one."""
    advertise_url: str = ""
    """Where clients find this server, or a load balancer in front of it. Empty: where it listens."""
    store: StoreChoice = SQLITE
    encryption: KeySource | None = None
    """Where the keys are that Secrets are sealed with at rest. None: they are not."""
    replaces_keys: bool = False
    """Whether the keys in the data directory are right, although other servers had others."""
    tls: Tls = OwnTls()
    tokens: Mapping[str, User] = field(default_factory=dict)
    audit_log: Path | None = None
    http: HttpLimits = field(default_factory=HttpLimits)
    seats: int = 600
    """Of flow control: requests under way that are not exempt."""
    journal: JournalLimits | None = field(default_factory=JournalLimits)
    """How much is kept of what happens and is decided, in `journal` in the data directory. None: nothing."""
    security: SecurityLevel = SecurityLevel.BASELINE
    """The Pod Security level of namespaces that have no label for it."""
    node_certificates: timedelta = VALID
    """How long the certificates are good that the server signs for nodes and other clients, at most."""
    traces: str = ""
    """Where decisions and writes are sent as spans; empty: nowhere."""


async def serve(options: ServerOptions, env: Env, on_ready: Callable[["ServerProcess"], None]) -> None:
    """Run a server until SIGTERM or SIGINT. A second signal does not wait for requests. Raises `ServerCannotStart`; and
    `CannotGoOn` if the store takes no more writes until it is opened again, or a vital task has ended: the supervisor
    restarts the process.
    """
    signals = StopSignals()
    try:
        process = await ServerProcess.start(options, env)
        machine.settle()
        if process.health.loop_watch is not None:
            process.health.loop_watch.start()  # Not before: until here no client is kept waiting.
        await process.health.listen()
        on_ready(process)
        await tasks.until_one_ends([signals.first(), process.store_broken(), process.task_ended()], name="serve until")
        _log.info("stopping")
        hurrying = tasks.spawn(_hurry(signals, process), name="hurry")
        await process.stop()
        await tasks.stop(hurrying)
        if process.broken:
            raise CannotGoOn(process.broken)
    finally:
        signals.close()


async def _hurry(signals: StopSignals, process: "ServerProcess") -> None:
    await signals.second()
    await process.hurry()


class ServerProcess:
    """A server that runs. Make one with `ServerProcess.start`, and `stop` it."""

    def __init__(self, options: ServerOptions, env: Env, closing: contextlib.AsyncExitStack) -> None:
        self._options = options
        self._env = env
        self._closing = closing
        self._worker = tasks.Worker("certificates")
        host = machine.outward_address() if options.host in _ANYWHERE else options.host
        self._names = names_of_server(host, machine.hostname(), urlsplit(options.advertise_url).hostname or "")
        self._http: HttpServer | None = None
        self._grace = GRACE
        self.url = ""
        self.broken = ""
        """Why the server cannot go on, if that is so."""
        self.health = Health(env.clock)
        self._store: Store | None = None
        self.kubeconfig = options.data_dir / kubeconfig.NAME

    @classmethod
    async def start(cls, options: ServerOptions, env: Env) -> "ServerProcess":
        """Raises `ServerCannotStart`; then nothing is left open."""
        async with contextlib.AsyncExitStack() as closing:
            process = cls(options, env, closing)
            try:
                with process.health.active():
                    await process._start()
            except NewerFormat as error:
                raise ServerCannotStart(str(error)) from error
            except Corrupt as error:
                raise StoreDamaged(str(error)) from error
            except (StoreError, BadCertificate, DiskFull) as error:
                raise ServerCannotStart(str(error)) from error
            except OSError as error:
                what = f"cannot use {error.filename or options.data_dir}: {error.strerror or error}"
                advice = "make the data directory writable, or choose another with --data-dir"
                raise ServerCannotStart(f"{what}; {advice}") from error
            process._closing = closing.pop_all()
            return process
        raise AssertionError("unreachable")

    async def stop(self, grace: timedelta = GRACE) -> None:
        """Finish what was begun, but for no longer than the grace, and close everything."""
        self._grace = grace
        self.health.stopping()
        await self._closing.aclose()

    async def store_broken(self) -> None:
        """Wait until the store takes no more writes."""
        assert self._store is not None
        why = await wait_until_broken(self._store)
        self.broken = f"cannot write the store; stopping, so that a restart reads it again: {why}"

    async def task_ended(self) -> None:
        """Wait until a vital task has ended."""
        self.broken = await self.health.failed()

    async def _release_memory(self) -> None:
        await self._worker.run(machine.release_memory)

    async def hurry(self) -> None:
        """While stopping: do not wait for requests any longer."""
        if self._http is not None:
            await self._http.drain(timedelta(0))

    async def _start(self) -> None:
        options, env, closing = self._options, self._env, self._closing
        closing.callback(self._worker.close)
        try:
            env.disk.lock(_LOCK, f"process {os.getpid()}")
        except Locked as error:
            raise ServerCannotStart(
                f"the data directory {options.data_dir} is in use by {error.holder}: stop that one, or use another"
                " directory"
            ) from None
        closing.callback(env.disk.close)
        certificates = await self._certificates()
        tls = self._tls_context(certificates)
        tokens = dict(options.tokens)
        if tls is None:
            if options.host not in ("localhost", "127.0.0.1", "::1"):
                _log.warning("serving without TLS: anyone who sees the traffic can read everything, tokens included")
            tokens |= kubeconfig.ensure_tokens(env.disk)
        signing_key = await self._worker.run(ensure_signing_key, env.disk)
        metrics = Metrics(env.clock, process=True)
        opening = StoreOpening(options.data_dir, env, self.health, metrics, closing)
        store = self._store = await opening.open(options.store, options.encryption)
        authenticator = Authenticator.for_store(tokens, signing_key, store, env)
        audit = await self._open_audit(authenticator)
        watch = self.health.watch_loop()
        help_text = "CPU time of the longest callback on the event loop that was noticed."
        metrics.gauge("mainstay_event_loop_longest_callback_cpu_seconds", help_text, lambda: watch.longest_s)
        metrics.counter("mainstay_event_loop_slow_callbacks_total", "Those above 20 ms.", lambda: watch.slow)
        if audit is not None:
            metrics.counter("apiserver_audit_event_total", "Lines written to the audit log.", audit.count_written)
            metrics.counter("apiserver_audit_error_total", "Lines that could not be.", audit.count_dropped)
        journal = await self._open_journal(store, metrics)  # Before the first write, so that it has all of them.
        await require_shared_keys(store, certificates.authority, signing_key.name, replaces=options.replaces_keys)
        compacting = vital.spawn(compact_regularly(store, env.clock, self._release_memory), name="store-compaction")
        closing.push_async_callback(tasks.stop, compacting)
        connector = Connector(_shown_to_agents(certificates), is_plain_allowed=tls is None)
        pipeline = PipelineOptions(metrics, audit, seats=options.seats, health=self.health, has_processes=True)
        authority = await self._open_authority(certificates)
        api = await Api.start(store, env, authenticator, connector, journal, pipeline, options.security, authority)
        closing.push_async_callback(api.stop)
        if options.traces:
            await self._send_spans(store, journal, metrics)
        host, port = await self._listen(api.answer, tls)
        api.credentials.end_connections_by(self._end_connections)
        await api.advertise(host, port, self.url, self._find_digest(certificates), kubeconfig.find_token(tokens))
        api.publish_state(f"{host}-{port}")
        await self._worker.run(self._write_kubeconfigs, certificates)
        renewing = vital.spawn(self._renew(tls, connector, api), name="certificates")
        closing.push_async_callback(tasks.stop, renewing)

    async def _open_authority(self, certificates: Certificates) -> ClusterAuthority:
        disk, clock, lifetime = self._env.disk, self._env.clock, self._options.node_certificates
        return await self._worker.run(open_authority, disk, clock, self._authorities(certificates), lifetime)

    def _end_connections(self, is_revoked: Callable[[Mapping[str, Any]], bool]) -> None:
        if self._http is not None:
            self._http.end_clients(is_revoked)

    async def _certificates(self) -> Certificates:
        return await self._worker.run(ensure_certificates, self._env.disk, self._env.clock, self._names)

    def _tls_context(self, certificates: Certificates) -> ssl.SSLContext | None:
        directory = self._options.data_dir
        match self._options.tls:
            case OwnTls():
                return tls_context(directory / "server.crt", directory / "server.key", certificates.authority)
            case GivenTls(certificate, key, _) as given:
                return tls_context(certificate, key, certificates.authority + _client_authority(given))
            case NoTls():
                return None

    def _find_digest(self, certificates: Certificates) -> str:
        """Of the certificate that this server shows. Empty without TLS."""
        match self._options.tls:
            case OwnTls():
                return find_digest(certificates.server)
            case GivenTls(certificate, _, _):
                return find_digest(_read(certificate))
            case NoTls():
                return ""

    async def _open_audit(self, authenticator: Authenticator) -> Audit | None:
        path = self._options.audit_log
        if path is None:
            return None
        try:
            disk = SystemDisk(path.parent)
            audit = await Audit.start(disk, path.name, authenticator)
        except OSError as error:
            raise ServerCannotStart(f"cannot write the audit log {path}: {error.strerror or error}") from None
        self._closing.callback(disk.close)
        self._closing.push_async_callback(audit.close)
        return audit

    async def _open_journal(self, store: Store, metrics: Metrics) -> ServerJournal | None:
        # A store that is forgotten with the process has no history that another one could go on with.
        limits = self._options.journal
        if limits is None or isinstance(self._options.store, MemoryChoice):
            return None
        directory = self._options.data_dir / "journal"
        try:
            disk = SystemDisk(directory)
            self._closing.callback(disk.close)
            return await open_journal(disk, store, self._env.clock, limits, self._closing, metrics, build())
        except (JournalError, OSError) as error:
            raise ServerCannotStart(f"cannot keep a journal in {directory}: {error}") from None

    async def _send_spans(self, store: Store, journal: ServerJournal | None, metrics: Metrics) -> None:
        if journal is None:
            raise ServerCannotStart("traces are made from the journal: leave out --no-journal, or --otlp-endpoint")
        # By this namespace clusters are told apart, as everywhere in Kubernetes.
        found = await store.get("core/namespaces/kube-system")
        cluster = "" if found is None else str(msgspec.json.decode(found.value)["metadata"]["uid"])
        try:
            sender = SpanSender(self._options.traces, cluster)
        except NotInstalled as error:
            raise ServerCannotStart(str(error)) from None
        sender.start()
        self._closing.push_async_callback(sender.close)
        journal.collector.offer = sender.offer
        metrics.counter("mainstay_spans_sent_total", "Spans that a collector accepted.", lambda: sender.sent)
        metrics.counter("mainstay_spans_dropped_total", "Spans that no collector accepted.", lambda: sender.dropped)

    async def _listen(self, handler: Handler, tls: ssl.SSLContext | None) -> tuple[str, int]:
        """Returns the address and the port at which others find this server."""
        host, port = self._options.host, self._options.port
        try:
            http = await HttpServer.start(
                handler, host, port, tls=tls, limits=self._options.http, clock=self._env.clock, on_head=True
            )
        except OSError as error:
            raise ServerCannotStart(_why_not_listening(host, port, error)) from error
        self._http = http
        self._closing.push_async_callback(self._drain, http)
        address, port = http.addresses[0]
        listens_at = kubeconfig.server_url("http" if tls is None else "https", host, port)
        self.url = self._options.advertise_url or listens_at
        return machine.outward_address() if address in _ANYWHERE else address, port

    async def _drain(self, http: HttpServer) -> None:
        await http.drain(self._grace)

    def _write_kubeconfigs(self, certificates: Certificates) -> None:
        has_tls = not isinstance(self._options.tls, NoTls)
        disk, clock = self._env.disk, self._env.clock
        kubeconfig.write_kubeconfigs(disk, clock, self.url, self._authorities(certificates), has_tls=has_tls)

    def _authorities(self, certificates: Certificates) -> bytes:
        """What clients check this server with, as PEM. Empty without TLS."""
        match self._options.tls:
            case OwnTls():
                return certificates.authority
            case GivenTls(certificate, _, _) as given:
                # Which authority signed the given certificate is not known. What came with it is certain to be of use.
                # Ours is there for agents: it is how they know this server when it asks them something.
                return _read(certificate) + _client_authority(given) + b"\n" + certificates.authority
            case NoTls():
                return b""

    async def _renew(self, tls: ssl.SSLContext | None, connector: Connector, api: Api) -> None:
        """Take up new certificates without a restart: our own before they expire, given ones when they were changed."""
        while True:
            await tasks.sleep(CERTIFICATES_LOOKED_AT_EVERY)
            try:
                certificates = await self._certificates()
                self._tls_context(certificates)  # Tried out first: half of a new pair would spoil the one in use.
                connector.tls = _shown_to_agents(certificates)
                if tls is None:
                    continue
                match self._options.tls:
                    case OwnTls():
                        directory = self._options.data_dir
                        load_certificate(tls, directory / "server.crt", directory / "server.key")
                    case GivenTls(certificate, key, _):
                        load_certificate(tls, certificate, key)
                api.show_certificate(self._find_digest(certificates))
                await self._worker.run(self._write_kubeconfigs, certificates)
            except (BadCertificate, ServerCannotStart, DiskFull, OSError) as error:
                _log.error("cannot renew certificates; keeping the present ones: %s", error)


def _shown_to_agents(certificates: Certificates) -> ssl.SSLContext:
    return client_tls(certificates.agents, certificates.agents_key)


def _client_authority(given: GivenTls) -> bytes:
    return b"" if given.client_authority is None else b"\n" + _read(given.client_authority)


def _read(path: Path) -> bytes:
    try:
        return read_text(path).encode()
    except UnicodeDecodeError:
        raise BadCertificate(f"{path} is no certificate in PEM form") from None
    except OSError as error:
        raise BadCertificate(f"cannot read {path}: {error.strerror or error}") from None


def _why_not_listening(host: str, port: int, error: OSError) -> str:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {shown}: another process does. Stop that one, or choose another port"
    if error.errno == errno.EACCES:
        return f"cannot listen on {shown}: not allowed. Ports below 1024 need privileges; choose another port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {shown}: this machine does not have that address"
    return f"cannot listen on {shown}: {error.strerror or error}"
