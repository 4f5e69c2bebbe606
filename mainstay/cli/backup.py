"""`mainstay backup`: save everything in a cluster's store, at one revision, in a file."""

from collections.abc import AsyncIterable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mainstay.api.store_pages import BACKUP_PATH
from mainstay.cli.cluster_access import Command, Screen, Terminal, call_cluster, cluster_options, load_config
from mainstay.cli.counts import render_count
from mainstay.cli.exits import Exit
from mainstay.cli.progress import ProgressLine
from mainstay.cli.sizes import render_bytes

if TYPE_CHECKING:
    from mainstay.client.client import Client
    from mainstay.server.backup.facts import BackupFacts

KEYS_WARNING: Final = (
    "the file contains the private key of the certificate authority and the service account key: with it, anyone can"
    " act as any user of the cluster; keep it like a password"
)


@click.command(cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="Data directory of a stopped server",
)
@click.option("--with-keys", is_flag=True, help="Include CA and signing keys; needs --data-dir")
@click.option("--force", is_flag=True, help="Overwrite FILE")
@cluster_options
def backup(file: Path, data_dir: Path | None, with_keys: bool, force: bool, kubeconfig: str, context: str) -> int:
    """Save a backup of all objects.

    \b
        mainstay backup cluster.backup
        mainstay backup --kubeconfig ./data/kubeconfig /backups/$(date +%F).backup
        mainstay backup --data-dir ./data cluster.backup

    The server goes on serving; the backup has everything as of one revision, whether the store is SQLite or etcd. It
    includes the values of Secrets: the file is readable by its owner alone. It does not include the journal, files of
    pods, or keys and certificates of the data directory (--with-keys adds those).
    """
    if with_keys and data_dir is None:
        raise click.UsageError("--with-keys requires --data-dir: keys never leave the machine of the server")
    if data_dir is not None and (kubeconfig or context):
        raise click.UsageError("--data-dir excludes --kubeconfig and --context: remove one of them")
    require_target(file, is_replaced=force)
    if data_dir is not None:
        return _back_up_directory(data_dir, file, with_keys=with_keys)
    return call_cluster(load_config(kubeconfig, context), lambda client, screen: back_up_cluster(client, file, screen))


def require_target(file: Path, *, is_replaced: bool) -> None:
    """Raises `click.ClickException` if a file cannot be written there."""
    from mainstay.env.disk import exists, is_directory

    if not is_directory(file.parent):
        raise click.ClickException(f"directory {file.parent} not found: create it first")
    if exists(file) and not is_replaced:
        raise click.ClickException(f"{file} exists: choose another name, or overwrite it with --force")


async def back_up_cluster(client: "Client", file: Path, screen: Screen) -> int:
    """Save the backup that a server sends."""
    from mainstay.client.errors import NotFound

    try:
        async with client.stream(BACKUP_PATH, []) as stream:
            await save(stream, file, screen)
    except NotFound:
        servers = ", ".join(client.config.servers)
        raise click.ClickException(
            f"{servers} makes no backups: it is not a Mainstay server, or an older version"
        ) from None
    return Exit.SATISFIED


def _back_up_directory(data_dir: Path, file: Path, *, with_keys: bool) -> int:
    from mainstay.env import SystemClock, machine, tasks
    from mainstay.server.backup.data_dir import export_data_dir

    machine.keep_files_private()
    screen = Terminal()

    async def run() -> None:
        async with aclosing(export_data_dir(data_dir, SystemClock(), with_keys=with_keys)) as pieces:
            await save(pieces, file, screen)

    tasks.run(run())
    if with_keys:
        screen.note(KEYS_WARNING)
    return Exit.SATISFIED


async def save(pieces: AsyncIterable[bytes], file: Path, screen: Screen) -> None:
    """Write a backup as it comes, checking it on the way. Raises `click.ClickException`; then there is no such file."""
    from mainstay.env import SystemClock
    from mainstay.env.disk import DiskFull, PendingFile
    from mainstay.server.backup.errors import BackupRefused
    from mainstay.server.backup.facts import BackupCounter

    progress, counter = ProgressLine(SystemClock()), BackupCounter()
    pending: PendingFile | None = None
    try:
        pending = PendingFile(file)
        async for piece in pieces:
            counter.feed(piece)
            pending.write(piece)
            progress.show(f"{render_count(counter.objects, 'object')}, {render_bytes(counter.file_bytes)}")
        facts = counter.finish()
        pending.commit()
    except BackupRefused as error:
        raise click.ClickException(str(error)) from error
    except DiskFull:
        raise click.ClickException(f"cannot write {file}: no space left on the device") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from None
    finally:
        progress.clear()
        if pending is not None:
            pending.discard()
    screen.say(f"{file}: {render_facts(facts)}, {progress.elapsed_s:.1f} s")


def render_facts(facts: "BackupFacts") -> str:
    return (
        f"revision {facts.head.revision}, {render_count(facts.objects, 'object')}, {render_bytes(facts.file_bytes)},"
        f" sha256 {facts.sha256}"
    )
