"""`mainstay record`: what happened in the last minutes, in one file to look into anywhere."""

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

import click

from mainstay.api.times import human_duration
from mainstay.cli.cluster_access import Command, Screen
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import Opened, Source, explain, explain_options
from mainstay.cli.object_selection import namespace_option
from mainstay.env import SystemClock
from mainstay.env.build import build
from mainstay.explain.placement import rests_on
from mainstay.journal.bundle import Head, write_bundle
from mainstay.journal.bundle_contents import About, gathered
from mainstay.journal.record import moment


@click.command(cls=Command)
@click.option(
    "--since",
    type=Duration(),
    required=True,
    metavar="TIME",
    help="How much: the last 10m, 90s, 2h before now, or before --at.",
)
@click.option(
    "--object",
    "objects",
    multiple=True,
    metavar="TYPE/NAME",
    help="Only decisions about this object, what it owns and what owns it. May be repeated.",
)
@namespace_option
@explain_options
def record(since: timedelta, objects: Sequence[str], namespace: str, source: Source) -> int:
    """Put what happened into a file.

    \b
        mainstay record --since 10m > incident.bundle
        mainstay record --since 10m --object deploy/web > incident.bundle
        mainstay record --since 1h --at 2026-11-16T03:10:00Z --journal /var/lib/mainstay > incident.bundle

    A bundle has the state of the cluster at the beginning, every change after it and who asked for it, and every
    decision with what it depended on. `mainstay why`, `timeline` and the like take it with --bundle, and `mainstay
    replay` runs its decisions again. Values of Secrets are not in it.

    \b
    Exit codes: 0 all of it is there, 1 error, 4 the journal itself did not have all of it (the bundle is written).
    """
    if sys.stdout.isatty():
        raise click.UsageError("a bundle is nothing to look at: `mainstay record --since 10m > incident.bundle`.")
    now = SystemClock().wall()
    return explain(source, lambda asked, screen: record_bundle(asked, screen, since, objects, namespace, now))


async def record_bundle(
    asked: Opened, screen: Screen, since: timedelta, objects: Sequence[str], namespace: str, now: datetime
) -> int:
    """Write the bundle to the screen, and a summary beside it. Returns the exit code."""
    until: datetime | None = None
    ends = now
    if asked.at:
        ends = (await asked.moment()).at
        until = ends + timedelta(microseconds=1)
    elif asked.client is None:
        ends = (await asked.moment()).at  # Of files: now is where they end.
    about = []
    for each in objects:
        found = asked.object([each], namespace)
        about.append(About(found.kind.text, found.namespace, found.name))
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
    for line in _summary(contents.head, size):
        screen.note(line)
    counts = contents.counts
    screen.note(
        f"{counts.objects} objects, {counts.changes} changes, {counts.decisions} decisions, {counts.writes} writes"
    )
    for after, last, reason in contents.head.gaps:
        screen.note(f"the journal does not have revisions {after + 1} to {last} ({reason})")
    is_short = begins > ends - since
    is_pruned = is_short and extent.recorded[0][0] > 1
    if is_short:
        whose = "what came before is no longer in it" if is_pruned else "it has all since the cluster began"
        screen.note(f"the journal begins only {human_duration(ends - begins)} before the end: {whose}")
    return Exit.INCOMPLETE if contents.head.gaps or is_pruned else Exit.SATISFIED


def _summary(head: Head, size: int) -> list[str]:
    def shown(at: int) -> str:
        return f"{moment(at):%Y-%m-%d %H:%M:%S}"

    lines = [
        f"{shown(head.since)} to {shown(head.until)} UTC: revisions {head.begins} to {head.ends}, {_bytes(size)}",
    ]
    if head.about:
        lines.append(f"only decisions about {', '.join(head.about)}, what it owns and what owns it")
    lines.append(f"not in it: {', '.join(head.redactions)}")
    return lines


def _bytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
