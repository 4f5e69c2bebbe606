"""`mainstay store verify` of a backup, and of a running server."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstay.api.store_pages import VERIFY_PATH
from mainstay.cli.backup import render_facts
from mainstay.cli.cluster_access import Screen
from mainstay.cli.counts import render_count
from mainstay.cli.exits import Exit
from mainstay.cli.progress import ProgressLine

if TYPE_CHECKING:
    from mainstay.client.client import Client
    from mainstay.server.backup.verification import StoreReport


def verify_backup(file: Path, *, as_json: bool) -> int:
    """Read all of a backup. Raises `click.ClickException` if it is damaged."""
    from mainstay.env import SystemClock
    from mainstay.server.backup.errors import BackupRefused
    from mainstay.server.backup.facts import BackupCounter, read_backup

    progress, counter = ProgressLine(SystemClock()), BackupCounter(decodes=True)
    try:
        for _ in read_backup(file, counter):
            progress.show(render_count(counter.objects, "object"))
        facts = counter.finish()
    except BackupRefused as error:
        raise click.ClickException(f"{file}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"cannot read {file}: {error.strerror or error}") from None
    finally:
        progress.clear()
    head = facts.head
    if as_json:
        figures = {"revision": head.revision, "objects": facts.objects, "entries": facts.entries}
        needed = list(facts.encryption_keys)
        about = {"madeAt": head.made_at, "build": head.build, "cluster": head.cluster, "encryptionKeys": needed}
        click.echo(json.dumps({**figures, "bytes": facts.file_bytes, "sha256": facts.sha256, **about}, indent=2))
        return Exit.SATISFIED
    click.echo(f"{file}: {render_facts(facts)}, no damage")
    click.echo(f"made at {head.made_at} by {head.build} of cluster {head.cluster or '(unknown)'}")
    if facts.encryption_keys:
        click.echo(
            f"values of Secrets are sealed with the encryption key {', '.join(map(repr, facts.encryption_keys))}"
        )
    if facts.files:
        click.echo(f"contains {render_count(facts.files, 'file')} of the data directory: keys")
    return Exit.SATISFIED


async def verify_server(client: "Client", screen: Screen, *, as_json: bool) -> int:
    """Let a server read its store again. Returns the exit code."""
    from mainstay.client.errors import NotFound
    from mainstay.env import SystemClock

    progress = ProgressLine(SystemClock())
    try:
        report = await _read_report(client, progress)
    except NotFound:
        servers = ", ".join(client.config.servers)
        text = f"{servers} cannot verify its store: it is not a Mainstay server, or an older version"
        raise click.ClickException(text) from None
    finally:
        progress.clear()
    if as_json:
        figures = {"revision": report.revision, "records": report.records, "objects": report.objects}
        encryption = {"encryptionKey": report.encryption_key, "rotated": report.is_rotated, "stale": report.stale}
        screen.say(json.dumps({**figures, "faults": report.faults, **encryption}, indent=2))
    else:
        for line in render_report(report):
            screen.say(line)
    return Exit.BLOCKED if report.faults else Exit.SATISFIED


async def _read_report(client: "Client", progress: ProgressLine) -> "StoreReport":
    import msgspec

    from mainstay.server.backup.verification import decode_report

    waiting = b""
    async with client.stream(VERIFY_PATH, []) as stream:
        async for piece in stream:
            *lines, waiting = (waiting + piece).split(b"\n")
            for line in lines:
                try:
                    report, is_last = decode_report(line)
                except msgspec.MsgspecError as error:
                    raise click.ClickException(f"cannot parse the report of the server: {error}") from None
                if is_last:
                    return report
                progress.show(f"{report.records} of {report.expected} records")
    raise click.ClickException("the report of the server ends early: see its log, and run the command again")


def _render_encryption(report: "StoreReport") -> str:
    if not report.encryption_key:
        return "encryption: none, values of Secrets are stored in plain text"
    in_use = f"encryption: key {report.encryption_key!r}"
    if report.is_rotated:
        return f"{in_use}; no record needs another"
    if not report.stale:
        return f"{in_use}; all values are sealed with it, but the history needs older keys until it is compacted"
    left = ", ".join(f"{count} with {key!r}" for key, count in sorted(report.stale.items()))
    return f"{in_use}; not sealed with it yet: {left}"


def render_report(report: "StoreReport") -> list[str]:
    read = f"{render_count(report.records, 'record')} with {render_count(report.objects, 'version')} of objects"
    known = f"revision {report.revision}, {read}"
    damage = render_count(len(report.faults), "fault") if report.faults else "no damage"
    lines = [f"store: {known}, {damage}", *(f"  {fault}" for fault in report.faults), _render_encryption(report)]
    if report.faults:
        lines.append("")
        lines.append(
            "What the server serves is what it has in memory. Save it now: mainstay backup FILE. Then stop the server,"
            " check the disk, and restore the backup into an empty directory (docs/guides/backup.md)"
        )
    return lines
