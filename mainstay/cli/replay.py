"""`mainstay replay`: replay recorded decisions, with this build or another one, and compare."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from mainstay.cli.cluster_access import Command, Screen, Terminal
from mainstay.cli.counts import render_count
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import answer_option
from mainstay.cli.journal_access import JournalChoice, OpenJournal, explain, explain_options
from mainstay.cli.output import Output, OutputFormat
from mainstay.cli.replay_policy import compare_records, read_candidate
from mainstay.cli.table_text import TableText

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.explain.replay import Answer, Summary
    from mainstay.journal.bundle import Contents
    from mainstay.journal.interface import Journal
    from mainstay.journal.record import DecisionRecord

DIFFERENCES_SHOWN: Final = 5
NAMED_MAX: Final = 200
"""How many decisions to name on the command line of another build."""
_LENGTH_SHOWN: Final = 400
_NO_LIMIT: Final = 1 << 40
_AROUND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Which decisions to replay, and with which build."""

    decisions: tuple[str, ...] = ()
    """Their ids; empty: all of `since`."""
    since: timedelta | None = None
    component: str = ""
    build: str = ""
    """The directory of another build; empty: this one."""
    candidate: "Object | None" = None
    """A PlacementPolicy to compare with; None: replay."""
    output: Output = field(default_factory=Output)


@click.command(cls=Command)
@click.argument("what", nargs=-1, metavar="[DECISION… | BUNDLE]")
@click.option("--since", type=Duration(), default=None, metavar="DURATION", help="Replay the last 10m, 1h …")
@click.option("--component", default="", metavar="NAME", help="Replay only this component's decisions")
@click.option("--build", default="", metavar="DIR", help="Decide with the build in this directory")
@click.option("--policy", default="", metavar="FILE", help="Compare with the PlacementPolicy in FILE")
@click.option("--json", "as_json", is_flag=True, help="Same as -o json")
@answer_option("all differences")
@explain_options
def replay(
    what: tuple[str, ...],
    since: timedelta | None,
    component: str,
    build: str,
    policy: str,
    as_json: bool,
    output: Output,
    source: JournalChoice,
) -> int:
    """Replay recorded decisions and compare.

    \b
        mainstay replay scheduler-1-6f0c….17          one decision (`mainstay get decisions`)
        mainstay replay --since 10m                   all of the last ten minutes
        mainstay replay incident.bundle               all of an incident bundle
        mainstay replay incident.bundle --build ../mainstay-next
        mainstay replay incident.bundle --policy candidate.yaml

    Rebuilds the inputs of each decision from the journal and decides again. With the same build the outcome must be
    identical, because decisions depend on nothing else; if it is not, please report a bug with a bundle. With another
    build, the differences are what that build would have done. --build names the directory that contains the package
    `mainstay`.

    --policy decides the scheduler's decisions a second time, as if the PlacementPolicy in the file had been active:
    per decision on the recorded view, and run forward with its own placements (balance, fragmentation, pending pods).
    Before that it checks that the recorded policies re-derive what was recorded; exit code 2 means that they do not.

    \b
    Exit codes: 0 all identical, 1 error, 2 differences, 4 not replayable
    With --policy: 0 the recorded policies re-derive all decisions (the candidate may differ)
    """
    from mainstay.env import SystemClock

    if as_json:
        output = replace(output, form=OutputFormat.JSON)
    if policy and build:
        raise click.UsageError("--policy and --build cannot be combined: use one of them")
    candidate = read_candidate(policy, SystemClock().wall()) if policy else None
    wanted = ReplayOptions(
        decisions=what, since=since, component=component, build=build, candidate=candidate, output=output
    )
    if what and not source.bundle and not source.journal and _is_bundle(what[0]):
        source, wanted = replace(source, bundle=what[0]), replace(wanted, decisions=what[1:])
    if source.bundle:
        return _replay_bundle(source.bundle, wanted)
    if not wanted.decisions and since is None:
        raise click.UsageError("missing argument DECISION or BUNDLE, or option --since (for example --since 10m)")
    now = SystemClock().wall()
    return explain(source, lambda opened, screen: replay_decisions(opened, screen, wanted, now))


async def replay_decisions(opened: OpenJournal, screen: Screen, wanted: ReplayOptions, now: datetime) -> int:
    """Do what the command does with an open journal. Raises `click.ClickException`, `JournalError`."""
    from mainstay.journal.bundle import build_journal
    from mainstay.journal.bundle_contents import gathered
    from mainstay.journal.record import moment
    from mainstay.scheduler.why.placement import rests_on

    ends = now if opened.client is not None and not opened.at else (await opened.moment()).at
    if wanted.decisions:
        records = [await _find_decision(opened.journal, name) for name in wanted.decisions]
        since = moment(min(record.now or record.at for record in records)) - _AROUND
        until: datetime | None = moment(max(record.at for record in records)) + _AROUND
    else:
        since, until = ends - (wanted.since or timedelta()), None
        records = []
    contents = await gathered(
        opened.journal, since=since, until=until, build="", made_at=now, rests_on=lambda each: rests_on(each)
    )
    journal = build_journal(contents)
    if not records:
        found = await journal.decisions(component=wanted.component, since=since, limit=_NO_LIMIT)
        records = list(found.records)
    return await _replay(screen, wanted, journal, records, contents)


async def _find_decision(journal: "Journal", name: str) -> "DecisionRecord":
    record = await journal.decision(name)
    if record is None:
        raise click.ClickException(
            f"decision {name} not found: it was not recorded or is pruned; `mainstay get decisions` lists the others"
        )
    return record


def _replay_bundle(path: str, wanted: ReplayOptions) -> int:
    from mainstay.env import tasks
    from mainstay.env.disk import read_bytes
    from mainstay.journal.bundle import open_bundle
    from mainstay.journal.errors import JournalError
    from mainstay.journal.record import moment

    async def run() -> int:
        content = read_bytes(Path(path))
        bundle = open_bundle(content)
        if wanted.decisions:
            records = [await _find_decision(bundle.journal, name) for name in wanted.decisions]
        else:
            since = moment(bundle.head.since) if wanted.since is None else moment(bundle.head.until) - wanted.since
            found = await bundle.journal.decisions(component=wanted.component, since=since, limit=_NO_LIMIT)
            records = list(found.records)
        return await _replay(Terminal(), wanted, bundle.journal, records, content)

    try:
        return tasks.run(run())
    except OSError as error:
        raise click.ClickException(f"cannot read bundle {path}: {error.strerror}") from None
    except JournalError as error:
        raise click.ClickException(str(error)) from error


def _is_bundle(text: str) -> bool:
    """Whether a word is the name of a file rather than of a decision."""
    from mainstay.env.disk import read_bytes

    if text.endswith(".bundle") or "/" in text:
        return True
    try:
        read_bytes(Path(text))
    except OSError:
        return False
    return True


# Deciding.


async def _replay(
    screen: Screen,
    wanted: ReplayOptions,
    journal: "Journal",
    records: "Sequence[DecisionRecord]",
    bundle: "Contents | bytes",
) -> int:
    from mainstay.explain.replay import Summary, replay_all
    from mainstay.journal.bundle import packed
    from mainstay.registry import load_deciders

    if not records:
        of = f" of component {wanted.component!r}" if wanted.component else ""
        raise click.ClickException(f"no decisions{of} in this time: use a longer --since")
    if wanted.candidate is not None:
        return await compare_records(screen, journal, records, wanted.candidate, wanted.output)
    answers: dict[str, Answer] = {}
    if wanted.build:
        content = bundle if isinstance(bundle, bytes) else b"".join(packed(bundle))
        answers = await _replay_elsewhere(wanted.build, content, [record.id for record in records])
    else:
        async for record, answer in replay_all(journal, records, load_deciders()):
            answers[record.id] = answer
    summary = Summary()
    for record in records:
        summary.add(record, answers[record.id])
    _show(screen, wanted, records, answers, summary)
    if summary.differences:
        return Exit.BLOCKED
    return Exit.SATISFIED if summary.replayed else Exit.INCOMPLETE


class _Result(msgspec.Struct, frozen=True):
    """One result, as `-o json` prints it."""

    id: str
    answer: str
    field: str = ""
    recorded: str = ""
    now: str = ""
    why: str = ""
    text: str = ""


class _Results(msgspec.Struct, frozen=True):
    decisions: list[_Result]


async def _replay_elsewhere(directory: str, bundle: bytes, names: Sequence[str]) -> "dict[str, Answer]":
    """Replay with the command of another build. The two share the bundle and the form of `-o json`."""
    from mainstay.env import commands, tasks
    from mainstay.env.disk import is_directory
    from mainstay.explain.replay import CannotReplay
    from mainstay.journal.record import WhyNot

    root = Path(os.environ.get("PWD", ""), directory)  # Absolute: the program starts in another directory.
    if not is_directory(root / "mainstay"):
        raise click.ClickException(f"--build {directory}: no package `mainstay` in this directory")
    command = [sys.executable, "-m", "mainstay.cli.main", "replay", "--bundle", "/dev/stdin", "-o", "json"]
    # The first directory in the path wins over an installed package.
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
    # If there are too many to name, replay all of the bundle.
    named = names if len(names) <= NAMED_MAX else ()
    worker = tasks.Worker("another build")
    try:
        finished = await worker.run(
            partial(commands.run_to_end, [*command, *named], given=bundle, env=environment, cwd=root)
        )
    finally:
        worker.close()
    try:
        results = msgspec.json.decode(finished.output, type=_Results).decisions
    except msgspec.MsgspecError:
        lines = finished.errors.decode(errors="replace").strip().splitlines() or ["no error message"]
        raise click.ClickException(
            f"the build in {directory} cannot replay: {lines[-1]} (exit code {finished.code})"
        ) from None
    answers = {each.id: _parse_result(each) for each in results}
    missing = CannotReplay(WhyNot.HISTORY_MISSING, f"no result from the build in {directory}")
    return {name: answers.get(name, missing) for name in names}


def _parse_result(result: _Result) -> "Answer":
    from mainstay.explain.replay import CannotReplay, Differs, Same
    from mainstay.journal.record import WhyNot

    match result.answer:
        case "same":
            return Same()
        case "differs":
            return Differs(result.field, result.recorded, result.now)
        case _:
            why = WhyNot(result.why) if result.why in list(WhyNot) else WhyNot.READ_OUTSIDE
            return CannotReplay(why, result.text)


# Showing.


def _show(
    screen: Screen,
    wanted: ReplayOptions,
    records: "Sequence[DecisionRecord]",
    answers: "Mapping[str, Answer]",
    summary: "Summary",
) -> None:
    form = wanted.output.form
    if form in (OutputFormat.JSON, OutputFormat.YAML):
        from mainstay.cli.yaml_text import yaml_text

        results = {
            "decisions": [_as_object(record, answers[record.id]) for record in records],
            "replayed": summary.replayed,
            "agreement": summary.agreement,
        }
        screen.say(
            json.dumps(results, indent=4, ensure_ascii=False) if form is OutputFormat.JSON else yaml_text(results)
        )
        return
    if len(records) == 1:
        for line in _render_one(records[0], answers[records[0].id], is_wide=form is OutputFormat.WIDE):
            screen.say(line)
        return
    for line in _render_table(screen, summary):
        screen.say(line)
    by = f" with the build in {wanted.build}" if wanted.build else ""
    same = sum(summary.same.values())
    cannot = sum(summary.cannot.values())
    verdict = "all identical" if same == summary.replayed else f"{same} identical, {summary.replayed - same} different"
    rest = f"; {cannot} not replayable" if cannot else ""
    screen.say(f"\n{render_count(summary.replayed, 'decision')} replayed{by}, {verdict}{rest}")
    shown = summary.differences if form is OutputFormat.WIDE else summary.differences[:DIFFERENCES_SHOWN]
    for record, difference in shown:
        screen.say("")
        for line in _render_one(record, difference, is_wide=form is OutputFormat.WIDE):
            screen.say(line)
    if len(shown) < len(summary.differences):
        screen.say(f"\nand {len(summary.differences) - len(shown)} more; -o wide shows all")


def _render_table(screen: Screen, summary: "Summary") -> list[str]:
    names = sorted({*summary.same, *summary.differs, *(name for name, _ in summary.cannot)})
    rows = []
    for name in names:
        whys = ", ".join(f"{why} {count}" for (who, why), count in sorted(summary.cannot.items()) if who == name)
        rows.append((name, summary.same.get(name, 0), summary.differs.get(name, 0), whys or "-"))
    titles = ("component", "identical", "different", "not replayable")
    return TableText(titles, is_coloured=screen.is_coloured).lines(rows, with_titles=True)


def _render_one(record: "DecisionRecord", answer: "Answer", *, is_wide: bool) -> list[str]:
    from mainstay.explain.replay import CannotReplay, Differs, Same
    from mainstay.journal.record import moment

    subject = record.subject
    at = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    said = record.outcome.reason or " ".join(record.reasons[:2])
    ended = f"{record.outcome.ending}{f' ({said})' if said else ''}"
    lines = [
        f"{record.id}",
        f"  {record.component}, {moment(record.at):%Y-%m-%d %H:%M:%S}, {subject.kind} {at}: {ended}",
    ]
    match answer:
        case Same():
            lines.append("  identical: the replay from the journal decides as recorded")
        case Differs(field=where, recorded=recorded, now=now):
            lines += [
                f"  different in {where}",
                f"    recorded  {_cut(recorded, is_wide)}",
                f"    replayed  {_cut(now, is_wide)}",
            ]
        case CannotReplay(why=why, text=text):
            lines.append(f"  not replayable: {text} ({why})")
    return lines


def _cut(text: str, is_wide: bool) -> str:
    return text if is_wide or len(text) <= _LENGTH_SHOWN else f"{text[:_LENGTH_SHOWN]} …"


def _as_object(record: "DecisionRecord", answer: "Answer") -> dict[str, Any]:
    from mainstay.explain.replay import CannotReplay, Differs, Same

    subject = record.subject
    found: dict[str, Any] = {
        "id": record.id,
        "component": record.component,
        "build": record.build,
        "subject": {"kind": subject.kind, "namespace": subject.namespace, "name": subject.name, "uid": subject.uid},
    }
    match answer:
        case Same():
            return {**found, "answer": "same"}
        case Differs(field=where, recorded=recorded, now=now):
            return {**found, "answer": "differs", "field": where, "recorded": recorded, "now": now}
        case CannotReplay(why=why, text=text):
            return {**found, "answer": "cannot", "why": str(why), "text": text}
