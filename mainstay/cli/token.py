"""`mainstay token`: create, list and revoke the tokens with which machines join."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from mainstay.api import times
from mainstay.api.kind_names import SECRETS
from mainstay.cli.cluster_access import MANAGER, Command, Screen, call_cluster, cluster_options, load_config
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.node_options import NodeName

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.client import Client
    from mainstay.client.config import Config

NAMESPACE: Final = "kube-system"
TYPE: Final = "bootstrap.kubernetes.io/token"
NAME_PREFIX: Final = "bootstrap-token-"
TTL_MAX: Final = timedelta(days=30)
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_HERE: Final = ("127.", "localhost", "::1")


class TokenLifetime(Duration):
    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        length = super().convert(value, param, ctx)
        if not timedelta() < length <= TTL_MAX:
            self.fail(f"{value} must be more than 0 and at most {TTL_MAX.days} days", param, ctx)
        return length


@click.group()
def token() -> None:
    """Manage the tokens that machines join with.

    \b
        mainstay token create
        mainstay token list
        mainstay token revoke abcdef
    """


@token.command(cls=Command)
@click.option(
    "--ttl", type=TokenLifetime(), default="24h", show_default=True, metavar="DURATION", help="Lifetime, at most 30d"
)
@click.option("--node", type=NodeName(), metavar="NAME", help="Only for this node, even if it exists")
@click.option("--print-join-command", is_flag=True, help="Print nothing but the join command")
@cluster_options
def create(ttl: timedelta, node: str | None, print_join_command: bool, kubeconfig: str, context: str) -> int:
    """Create a token and print the join command.

    \b
        mainstay token create
        mainstay token create --ttl 1h --node worker-2

    A machine with the token can become a node that does not exist yet. With --node it becomes that node: if another
    machine was the node until now, the credentials of that machine are revoked.
    """
    config = load_config(kubeconfig, context)
    return call_cluster(
        config, lambda client, screen: create_token(client, screen, config, ttl, node or "", is_bare=print_join_command)
    )


@token.command("list", cls=Command)
@cluster_options
def list_(kubeconfig: str, context: str) -> int:
    """List tokens, without their secrets.

    \b
        mainstay token list
    """
    return call_cluster(load_config(kubeconfig, context), list_tokens)


@token.command(cls=Command)
@click.argument("tokens", nargs=-1, required=True, metavar="ID|TOKEN…")
@cluster_options
def revoke(tokens: tuple[str, ...], kubeconfig: str, context: str) -> int:
    """Revoke tokens at once.

    \b
        mainstay token revoke abcdef

    Nodes that have joined with a token stay nodes. To revoke their credentials use `mainstay node remove` or `mainstay
    credential revoke`.
    """
    return call_cluster(load_config(kubeconfig, context), lambda client, screen: revoke_tokens(client, screen, tokens))


async def create_token(
    client: "Client", screen: Screen, config: "Config", ttl: timedelta, node: str, *, is_bare: bool
) -> int:
    """Do what the command does. Raises `ApiError`."""
    from mainstay.client.call import WriteOptions
    from mainstay.env import SystemClock

    token_id, secret = make_token()
    expires = times.format_time(SystemClock().wall() + ttl)
    data = {
        "token-id": token_id,
        "token-secret": secret,
        "expiration": expires,
        "usage-bootstrap-authentication": "true",
        **({"node-name": node} if node else {}),
    }
    metadata = {"name": NAME_PREFIX + token_id, "namespace": NAMESPACE}
    made = {"metadata": metadata, "type": TYPE, "stringData": data}
    await client.create(SECRETS, made, write=WriteOptions(field_manager=MANAGER))
    command = render_join_command(config, f"{token_id}.{secret}", node)
    if any(config.addresses[0].host.startswith(each) for each in _HERE):
        text = f"other machines cannot reach {config.servers[0]}: restart the cluster with `mainstay up --host ADDRESS`"
        screen.note(f"mainstay: {text}")
    if is_bare:
        screen.say(command)
        return Exit.SATISFIED
    purpose = f"for node {node}" if node else "for new nodes"
    screen.say(f"Token {token_id} {purpose}, until {expires}. On the machine that joins, run:\n\n  {command}")
    return Exit.SATISFIED


def make_token() -> tuple[str, str]:
    """A new id and secret."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    # A key is as good a secret as there is; `env.chance` is not for secrets.
    number = int.from_bytes(AESGCM.generate_key(bit_length=256))
    letters = []
    for _ in range(22):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters[:6]), "".join(letters[6:])


def render_join_command(config: "Config", token_text: str, node: str) -> str:
    """Raises `click.ClickException` if the cluster has no certificates."""
    from cryptography import x509

    from mainstay.agent.join import compute_ca_hash

    if not config.tls.authorities:
        raise click.ClickException("the kubeconfig names no certificate authority: machines cannot check the server")
    found = x509.load_pem_x509_certificates(config.tls.authorities.encode())
    hashes = " ".join(f"--ca-hash {compute_ca_hash(each)}" for each in found)
    name = f" --name {node}" if node else ""
    return f"mainstay agent --join {config.servers[0]} --token {token_text} {hashes}{name}"


async def list_tokens(client: "Client", screen: Screen) -> int:
    """Raises `ApiError`."""
    from mainstay.cli.table_text import TableText
    from mainstay.env import SystemClock

    found = (await client.list(SECRETS, NAMESPACE, fields=f"type={TYPE}")).items
    if not found:
        screen.note("mainstay: there are no tokens; create one with `mainstay token create`")
        return Exit.SATISFIED
    now = SystemClock().wall()
    rows = [_describe(each, now) for each in sorted(found, key=lambda each: str(each["metadata"]["name"]))]
    table = TableText(["Token", "Expires", "Node"], is_coloured=screen.is_coloured)
    for line in table.lines(rows, with_titles=True):
        screen.say(line)
    return Exit.SATISFIED


def _describe(secret: "Object", now: datetime) -> tuple[str, str, str]:
    until = _read(secret, "expiration")
    try:
        left = times.parse_time(until).astimezone(UTC) - now if until else None
    except ValueError:
        left = timedelta(0)
    expires = "never" if left is None else "expired" if left <= timedelta(0) else f"in {times.human_duration(left)}"
    return _read(secret, "token-id"), expires, _read(secret, "node-name") or "any new node"


def _read(secret: "Object", key: str) -> str:
    from base64 import b64decode

    return b64decode((secret.get("data") or {}).get(key, "")).decode(errors="replace")


async def revoke_tokens(client: "Client", screen: Screen, tokens: tuple[str, ...]) -> int:
    """Raises `ApiError`."""
    from mainstay.client.errors import NotFound

    code = Exit.SATISFIED
    for each in tokens:
        token_id = each.partition(".")[0]
        try:
            await client.delete(SECRETS, NAME_PREFIX + token_id, NAMESPACE)
        except NotFound:
            screen.note(f"mainstay: token {token_id!r} not found: `mainstay token list` shows those that exist")
            code = Exit.ERROR
            continue
        screen.say(f"token {token_id} revoked")
    return code
