"""`mainstay store`: check a store, a backup or a running server, and repair what a server has on disk."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mainstay.cli.cluster_access import Command, call_cluster, cluster_options, load_config
from mainstay.cli.counts import render_count
from mainstay.cli.exits import Exit
from mainstay.cli.lazy_group import CommandEntry, LazyGroup
from mainstay.cli.progress import ProgressLine
from mainstay.cli.store_verify import verify_backup, verify_server

if TYPE_CHECKING:
    from mainstay.server.data_dir_check import DirectoryReport, SalvagePlan

OBJECTS_SHOWN: Final = 20

STORE_COMMANDS: Final = (
    CommandEntry("Commands", "verify", "Read every record and report damage", "mainstay.cli.store:verify"),
    CommandEntry("Commands", "salvage", "Keep what is whole of a damaged store", "mainstay.cli.store:salvage"),
)


@click.group(cls=LazyGroup, table=STORE_COMMANDS)
def store() -> None:
    """Check and repair a store.

    \b
        mainstay store verify
        mainstay store verify --data-dir ./data
        mainstay store salvage --data-dir ./data
    """


_data_dir = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    required=True,
    metavar="DIR",
    help="Data directory of a stopped server",
)


@click.command(cls=Command)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="Data directory of a stopped server",
)
@click.option(
    "--backup", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="Backup to check"
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON")
@cluster_options
def verify(data_dir: Path | None, backup: Path | None, as_json: bool, kubeconfig: str, context: str) -> int:
    """Read every record and report damage.

    \b
        mainstay store verify
        mainstay store verify --data-dir ./data
        mainstay store verify --backup cluster.backup --json

    Without --data-dir and --backup, a running server reads its store again, SQLite or etcd, and compares it with what
    it serves. --data-dir reads the store and the journal of a stopped server. Nothing is changed. Exit code 0: no
    damage, 1: the backup is damaged, 2: the store is damaged, 4: only the journal is damaged.
    """
    if sum((data_dir is not None, backup is not None, bool(kubeconfig or context))) > 1:
        raise click.UsageError("give only one of --data-dir, --backup and --kubeconfig")
    if backup is not None:
        return verify_backup(backup, as_json=as_json)
    if data_dir is not None:
        return _verify_data_dir(data_dir, as_json=as_json)
    config = load_config(kubeconfig, context)
    return call_cluster(config, lambda client, screen: verify_server(client, screen, as_json=as_json))


def _verify_data_dir(data_dir: Path, *, as_json: bool) -> int:
    from mainstay.env import SystemClock
    from mainstay.server.data_dir_check import CannotCheck, check_data_dir

    progress = ProgressLine(SystemClock())
    try:
        report = check_data_dir(data_dir, progress.show)
    except CannotCheck as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.clear()
    click.echo(json.dumps(_encode_report(report), indent=2) if as_json else "\n".join(_render_report(data_dir, report)))
    if report.store is not None and report.store.faults:
        return Exit.BLOCKED
    return Exit.INCOMPLETE if report.journal else Exit.SATISFIED


def _render_report(data_dir: Path, report: "DirectoryReport") -> list[str]:
    lines = []
    image = report.store
    if image is None:
        lines.append("store: none in this directory")
    else:
        known = f"revision {image.chain.head.revision}, {render_count(len(image.rows), 'row')}, format {image.format}"
        lines.append(f"store: {known}, {_render_damage(len(image.faults))}")
        lines += [f"  {data_dir / 'store' / fault.file}: {fault.what}" for fault in image.faults]
    if report.journal is None:
        lines.append("journal: none in this directory")
    else:
        lines.append(f"journal: up to revision {report.journal_reached}, {_render_damage(len(report.journal))}")
        lines += [f"  {data_dir / 'journal' / damage.file}: {damage.what}" for damage in report.journal]
    if image is not None and image.faults:
        from mainstay.server.store_damage import render_cure

        lines += ["", render_cure(data_dir)]
    return lines


def _render_damage(faults: int) -> str:
    return render_count(faults, "fault") if faults else "no damage"


def _encode_report(report: "DirectoryReport") -> dict[str, object]:
    image = report.store
    return {
        "store": None
        if image is None
        else {
            "format": image.format,
            "revision": image.chain.head.revision,
            "acknowledged": None if image.acknowledged is None else image.acknowledged.revision,
            "rows": len(image.rows),
            "faults": [{"file": fault.file, "message": fault.what} for fault in image.faults],
        },
        "journal": None
        if report.journal is None
        else {
            "revision": report.journal_reached,
            "faults": [{"file": damage.file, "message": damage.what} for damage in report.journal],
        },
    }


@click.command()
@_data_dir
@click.option("--accept-loss", is_flag=True, help="Go on without what is lost")
def salvage(data_dir: Path, accept_loss: bool) -> int:
    """Keep what is whole of a damaged store.

    \b
        mainstay store salvage --data-dir ./data
        mainstay store salvage --data-dir ./data --accept-loss

    Without --accept-loss it only says what would be lost. The damaged store is moved aside, never deleted. The new one
    begins a new epoch: all clients list again. Restore a backup instead if there is a recent one.
    """
    from mainstay.env import SystemClock, machine
    from mainstay.server.data_dir_check import CannotCheck, Salvaged, plan_salvage, salvage_data_dir

    machine.keep_files_private()
    progress = ProgressLine(SystemClock())
    done: Salvaged | None = None
    try:
        if accept_loss:
            done = salvage_data_dir(data_dir, progress.show)
            plan = done.plan
        else:
            plan = plan_salvage(data_dir, progress.show)
    except CannotCheck as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.clear()
    click.echo("\n".join(_render_plan(plan)))
    if done is None:
        click.echo("Nothing was changed. To go on without what is lost, add --accept-loss")
        return Exit.BLOCKED
    click.echo(f"The store begins a new epoch at revision {done.revision}. The damaged one is in {done.aside}")
    return Exit.SATISFIED


def _render_plan(plan: "SalvagePlan") -> list[str]:
    found, lost = plan.salvage, plan.lost_objects
    lines = [f"kept: {render_count(len(found.entries), 'key')} as of revision {found.revision}"]
    if not plan.image.faults:
        lines.append("lost: nothing, the store has no damage")
        return lines
    commits = f"lost: {render_count(found.commits_lost, 'commit')}"
    if found.commits_lost:
        commits += f" (revisions {found.revision + 1} to {found.highest})"
    if found.rows_lost:
        commits += f", and {render_count(found.rows_lost, 'older row')} of unknown keys"
    lines.append(commits)
    if found.commits_lost:
        if plan.is_known_until > found.revision:
            known = min(plan.is_known_until, found.highest)
            lines.append(f"By the journal, revisions {found.revision + 1} to {known} wrote:")
            lines += [f"  {key}" for key in lost[:OBJECTS_SHOWN]]
            if len(lost) > OBJECTS_SHOWN:
                lines.append(f"  and {len(lost) - OBJECTS_SHOWN} more")
        else:
            lines.append("The journal does not know what they wrote.")
    return lines
