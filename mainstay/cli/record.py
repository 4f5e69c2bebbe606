"""`mainstay record`: export what happened in the last minutes as an incident bundle, to be read anywhere."""

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import click

from mainstay.api.times import human_duration
from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.counts import render_count
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import JournalChoice, OpenJournal, explain, explain_options
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.sizes import render_bytes

if TYPE_CHECKING:
    from mainstay.journal.bundle import Head


@click.command(cls=Command)
@click.option(
    "--since",
    type=Duration(),
    required=True,
    metavar="DURATION",
    help="Time before now, or before --at (10m, 2h)",
)
@click.option(
    "--object",
    "objects",
    multiple=True,
    metavar="TYPE/NAME",
    help="Limit decisions to an object; repeatable",
)
@namespace_option
@explain_options
def record(since: timedelta, objects: Sequence[str], namespace: str, source: JournalChoice) -> int:
    """Export an incident bundle.

    \b
        mainstay record --since 10m > incident.bundle
        mainstay record --since 10m --object deploy/web > incident.bundle
        mainstay record --since 1h --at 2026-11-16T03:10:00Z --journal /var/lib/mainstay > incident.bundle

    A bundle contains the state of the cluster at the start, every change with the user who made it, and every decision
    with its inputs. `mainstay why`, `timeline` and the other explaining commands read it with --bundle, and `mainstay
    replay` replays its decisions. It does not contain the values of Secrets. --object also includes the owners and
    dependents of the object.

    \b
    Exit codes: 0 complete, 1 error, 4 incomplete because the journal is (the bundle is written)
    """
    from mainstay.env import SystemClock

    if sys.stdout.isatty():
        raise click.UsageError("a bundle is binary: redirect it (for example > incident.bundle)")
    now = SystemClock().wall()
    return explain(source, lambda asked, screen: record_bundle(asked, screen, since, objects, namespace, now))


async def record_bundle(
    asked: OpenJournal, screen: Screen, since: timedelta, objects: Sequence[str], namespace: str, now: datetime
) -> int:
    """Write the bundle to standard output, and a summary to standard error. Returns the exit code."""
    from mainstay.env.build import build
    from mainstay.journal.bundle import write_bundle
    from mainstay.journal.bundle_contents import BundleObject, gathered
    from mainstay.journal.record import moment
    from mainstay.scheduler.why.placement import rests_on

    until: datetime | None = None
    ends = now
    if asked.at:
        ends = (await asked.moment()).at
        until = ends + timedelta(microseconds=1)
    elif asked.client is None:
        ends = (await asked.moment()).at  # For files, now is their end.
    about = []
    for each in objects:
        found = asked.object([each], namespace)
        about.append(BundleObject(found.kind.text, found.namespace, found.name))
    extent = await asked.journal.extent()
    begins = max(ends - since, moment(extent.first_at)) if extent.recorded else ends - since
    contents = await gathered(
        asked.journal,
        since=begins,
        until=until,
        build=build(),
        made_at=now,
        about=about,
        rests_on=rests_on,
    )
    size = write_bundle(contents, screen.write)
    for line in _summarize(contents.head, size):
        screen.note(line)
    counts = contents.counts
    screen.note(
        ", ".join(
            [
                render_count(counts.objects, "object"),
                render_count(counts.changes, "change"),
                render_count(counts.decisions, "decision"),
                render_count(counts.writes, "write"),
            ]
        )
    )
    for after, last, reason in contents.head.gaps:
        screen.note(f"revisions {after + 1} to {last} are missing in the journal ({reason})")
    is_short = begins > ends - since
    is_pruned = is_short and extent.recorded[0][0] > 1
    if is_short:
        why = "older records are pruned" if is_pruned else "the cluster is no older"
        screen.note(f"the journal covers only the last {human_duration(ends - begins)}: {why}")
    return Exit.INCOMPLETE if contents.head.gaps or is_pruned else Exit.SATISFIED


def _summarize(head: "Head", size: int) -> list[str]:
    from mainstay.journal.record import moment

    def shown(at: int) -> str:
        return f"{moment(at):%Y-%m-%d %H:%M:%S}"

    lines = [
        f"{shown(head.since)} to {shown(head.until)} UTC: revisions {head.begins} to {head.ends}, {render_bytes(size)}",
    ]
    if head.about:
        lines.append(f"only decisions about {', '.join(head.about)}, its owners and its dependents")
    lines.append(f"left out: {', '.join(head.redactions)}")
    return lines
