"""`mainstay restore`: make a store from a backup, in a data directory or in etcd."""

from collections.abc import AsyncIterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mainstay.cli.backup import render_facts, require_target, save
from mainstay.cli.cluster_access import Command, Screen, Terminal
from mainstay.cli.etcd_options import (
    EtcdFiles,
    build_etcd_choice,
    etcd_options,
    parse_etcd_urls,
    require_no_etcd_files,
)
from mainstay.cli.exits import Exit

if TYPE_CHECKING:
    from mainstay.server.backup.contents import BackupContents, Restored
    from mainstay.server.store_choice import EtcdChoice


@click.command(cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="Data directory to restore into",
)
@click.option("--etcd", metavar="URL,…", help="etcd cluster to restore into")
@etcd_options
@click.option("--replace", is_flag=True, help="Replace the objects that are there")
def restore(file: Path, data_dir: Path | None, etcd: str | None, etcd_files: EtcdFiles, replace: bool) -> int:
    """Restore a backup.

    \b
        mainstay restore cluster.backup --data-dir ./data
        mainstay restore cluster.backup --data-dir ./data --replace
        mainstay restore cluster.backup --etcd http://127.0.0.1:2379

    Stop all API servers first. The whole backup is checked before anything is changed. --replace moves `store` and
    `journal` of the data directory aside, or first saves a backup of what etcd has. If a restore is interrupted,
    servers refuse to start until it is run again. Writes after the backup are lost, and all clients list again: see
    docs/guides/backup.md for what to do after a restore.
    """
    from mainstay.env import machine, tasks
    from mainstay.server.backup.contents import read_contents
    from mainstay.server.backup.errors import BackupRefused

    if (data_dir is None) == (etcd is None):
        raise click.UsageError("give either --data-dir or --etcd")
    choice = None if etcd is None else _choose_etcd(etcd, etcd_files)
    if choice is None:
        require_no_etcd_files(etcd_files)
    machine.keep_files_private()
    screen = Terminal()
    try:
        contents = read_contents(file)
        if data_dir is not None:
            restored = tasks.run(_restore_directory(contents, data_dir, replace=replace))
            _say_restored(restored, f"mainstay server --data-dir {data_dir}", screen)
        elif choice is not None:
            restored = tasks.run(_restore_etcd(contents, choice, file, screen, replace=replace))
            _say_restored(restored, f"mainstay server --store etcd={etcd} …", screen)
    except BackupRefused as error:
        raise click.ClickException(str(error)) from error
    return Exit.SATISFIED


def _choose_etcd(urls: str, files: EtcdFiles) -> "EtcdChoice":
    try:
        return build_etcd_choice(parse_etcd_urls(urls), files)
    except ValueError as error:
        raise click.UsageError(f"--etcd: {error}") from None


async def _restore_directory(contents: "BackupContents", data_dir: Path, *, replace: bool) -> "Restored":
    from mainstay.env import SystemClock
    from mainstay.server.backup.directory_restore import restore_directory

    return await restore_directory(contents, data_dir, SystemClock(), replaces=replace)


async def _restore_etcd(
    contents: "BackupContents", choice: "EtcdChoice", file: Path, screen: Screen, *, replace: bool
) -> "Restored":
    from mainstay.env import Chance, Env, SystemClock, SystemDisk
    from mainstay.server.backup.etcd_restore import restore_etcd

    env = Env(SystemClock(), Chance.fresh(), SystemDisk(file.parent))

    async def save_present(pieces: AsyncIterable[bytes]) -> Path:
        saved = file.with_name(f"{file.name}.replaced-{env.clock.wall():%Y%m%dT%H%M%SZ}")
        require_target(saved, is_replaced=False)
        await save(pieces, saved, screen)
        return saved

    return await restore_etcd(contents, choice, env, save_present if replace else None, screen.note)


def _say_restored(restored: "Restored", start: str, screen: Screen) -> None:
    head = restored.facts.head
    screen.say(f"restored {render_facts(restored.facts)}")
    screen.say(f"the backup was made at {head.made_at}; the store continues at revision {restored.revision}")
    for path in restored.moved:
        screen.say(f"the previous {path.name.partition('.replaced-')[0]} is now {path}")
    match restored.keys:
        case "restored":
            screen.say("restored the CA and the service account key from the backup")
        case "kept":
            screen.say("kept the CA and the service account key of the data directory (--replace would replace them)")
    if keys := restored.facts.encryption_keys:
        screen.say(f"values of Secrets are sealed: the server needs the encryption key {', '.join(map(repr, keys))}")
    screen.say(f"Start the server: {start}")
