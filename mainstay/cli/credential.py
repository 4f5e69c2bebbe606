"""`mainstay credential`: revoke client certificates."""

import re
from typing import TYPE_CHECKING, Final

import click

from mainstay.api.kind_names import CREDENTIALS
from mainstay.cli.cluster_access import MANAGER, Command, Screen, call_cluster, cluster_options, load_config
from mainstay.cli.exits import Exit

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.client import Client

_SERIAL: Final = re.compile(r"(?:[0-9a-fA-F]{2}:)+[0-9a-fA-F]{2}|[0-9a-fA-F]{16,40}")
_NOW: Final = "9999-12-31T23:59:59Z"
"""The server stores a time in the future as the present, by its own clock."""


@click.group()
def credential() -> None:
    """Revoke client certificates.

    \b
        mainstay get credentials
        mainstay credential revoke system:node:worker-2
    """


@credential.command(cls=Command)
@click.argument("subject", metavar="USER|SERIAL")
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown in the Credential")
@cluster_options
def revoke(subject: str, reason: str, kubeconfig: str, context: str) -> int:
    """Revoke the certificates of a user, or one.

    \b
        mainstay credential revoke system:node:worker-2
        mainstay credential revoke jane --reason "laptop was stolen"
        mainstay credential revoke 5f:01:c2:…

    USER is the common name of the certificates: all that were issued until now are refused. SERIAL is the serial number
    of one, in hexadecimal. API servers refuse them from then on, and close connections that use them. A revocation
    cannot be taken back: issue a new certificate.
    """
    config = load_config(kubeconfig, context)
    return call_cluster(config, lambda client, screen: revoke_subject(client, screen, subject, reason))


async def revoke_subject(client: "Client", screen: Screen, subject: str, reason: str) -> int:
    """Do what the command does. Raises `ApiError`."""
    if _SERIAL.fullmatch(subject) is None:
        await revoke_user(client, subject, reason)
        screen.say(f"all certificates of {subject} that were issued until now are revoked")
        return Exit.SATISFIED
    from mainstay.api.kinds.credentials import normalize_serial

    serial = normalize_serial(subject)
    issued = [each for each in (await client.list(CREDENTIALS)).items if serial in _list_serials(each)]
    name = issued[0]["metadata"]["name"] if issued else f"serial:{serial}"
    serials = sorted({serial, *(issued[0]["spec"].get("revokedSerialNumbers") or () if issued else ())})
    await _write(client, name, {"revokedSerialNumbers": serials, **({"reason": reason} if reason else {})})
    whose = f" of {name}" if issued else ", which this cluster has not issued by request,"
    screen.say(f"certificate {serial}{whose} is revoked")
    return Exit.SATISFIED


async def revoke_user(client: "Client", user: str, reason: str) -> None:
    """Raises `ApiError`."""
    await _write(client, user, {"revokedBefore": _NOW, **({"reason": reason} if reason else {})})


async def _write(client: "Client", name: str, spec: "Object") -> None:
    from mainstay.client.call import WriteOptions
    from mainstay.client.errors import AlreadyExists

    write = WriteOptions(field_manager=MANAGER)
    try:
        await client.create(CREDENTIALS, {"metadata": {"name": name}, "spec": spec}, write=write)
    except AlreadyExists:
        await client.patch(CREDENTIALS, name, "", {"spec": spec}, write=write)


def _list_serials(credential: "Object") -> list[str]:
    return [each.get("serialNumber", "") for each in (credential.get("status") or {}).get("certificates") or ()]
