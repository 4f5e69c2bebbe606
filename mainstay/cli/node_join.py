"""What `mainstay agent --join` does before the agent starts: get the credential of the node, unless it has one."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import click

from mainstay.agent.credential_file import (
    FILE,
    KEY_FILE,
    LEFT_FILE,
    NodeCredential,
    read_credential,
    render_key,
    write_credential,
)
from mainstay.agent.credential_rotation import CredentialRotation
from mainstay.agent.join import CannotJoin, fetch_authorities, request_certificate
from mainstay.client.client import Client
from mainstay.client.config import ClientTls, Config
from mainstay.client.errors import ApiError
from mainstay.env import Env, tasks
from mainstay.http.certificates import ensure_key

__all__ = ["CannotJoin", "CredentialRotation", "JoinOptions", "NodeCredential", "find_credential"]


@dataclass(frozen=True, slots=True)
class JoinOptions:
    url: str
    token: str
    hashes: Sequence[str]


async def find_credential(env: Env, node: str, options: JoinOptions | None) -> NodeCredential | None:
    """What the data directory has, or what joining gets. None: this machine has not joined, and is not asked to.

    Raises `CannotJoin`, `BadConfig`, `BadCertificate`, `DiskFull`.
    """
    worker = tasks.Worker("join")
    try:
        found = await worker.run(read_credential, env.disk)
        if found is not None and found.node != node:
            text = f"this data directory has the credential of node {found.node!r}, not of {node!r}"
            raise CannotJoin(f"{text}: start with --name {found.node}, or use another --data-dir")
        if found is not None and found.not_after > env.clock.wall():
            return found
        if options is None:
            _require_usable(env, found)
            return None
        return await _join(env, node, options, worker)
    finally:
        worker.close()


def _require_usable(env: Env, found: NodeCredential | None) -> None:
    if found is not None:
        text = f"the credential in {FILE} expired at {found.not_after:%Y-%m-%d %H:%M:%S} (UTC): join again"
        raise CannotJoin(f"{text} with a token of `mainstay token create --node {found.node}`")
    if LEFT_FILE in env.disk.names():
        raise CannotJoin("this node was removed from its cluster: join again with --join and a new token")


async def _join(env: Env, node: str, options: JoinOptions, worker: tasks.Worker) -> NodeCredential:
    authorities = await fetch_authorities(options.url, options.hashes, env)
    key = await worker.run(ensure_key, env.disk, KEY_FILE)
    config = Config((options.url,), ClientTls(authorities), token=options.token)
    async with Client(config, env, user_agent="mainstay-agent") as client:
        try:
            certificate = await request_certificate(client, node, key, click.echo, options.token)
        except ApiError as error:
            raise CannotJoin(f"the API server at {options.url} did not issue a certificate: {error}") from None
    await worker.run(write_credential, env.disk, options.url, authorities, certificate, render_key(key))
    with contextlib.suppress(FileNotFoundError):
        env.disk.remove(LEFT_FILE)
    found = await worker.run(read_credential, env.disk)
    if found is None:
        raise AssertionError("a credential that was written is there")
    until = f"{found.not_after:%Y-%m-%d}"
    click.echo(f"mainstay agent {node}: joined {options.url}; credential in {FILE}, good until {until}, renews itself")
    return found
