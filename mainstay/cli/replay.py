"""`mainstay replay`: recorded decisions made again, by this build or another one: the same, or the first difference."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from mainstay.cli.cluster_access import Command, Screen, Terminal
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import Opened, Source, explain, explain_options
from mainstay.cli.output import Form, Output, OutputType
from mainstay.cli.table_text import TableText
from mainstay.cli.yaml_text import yaml_text
from mainstay.env import SystemClock, commands, tasks
from mainstay.env.disk import is_directory, read_bytes
from mainstay.explain.placement import rests_on
from mainstay.explain.replay import Answer, CannotReplay, Differs, Same, Summary, replay_all
from mainstay.journal.bundle import Contents, journal_of, open_bundle, packed
from mainstay.journal.bundle_contents import gathered
from mainstay.journal.errors import JournalError
from mainstay.journal.interface import Journal
from mainstay.journal.record import DecisionRecord, WhyNot, moment
from mainstay.registry import DECIDERS

DIFFERENCES_SHOWN: Final = 5
NAMED_MAX: Final = 200
"""How many decisions are named to another build."""
_LENGTH_SHOWN: Final = 400
_NO_LIMIT: Final = 1 << 40
_AROUND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be made again, and by whom."""

    decisions: tuple[str, ...] = ()
    """By their ids; none: all since then."""
    since: timedelta | None = None
    component: str = ""
    build: str = ""
    """The directory of another build; empty: this one."""
    output: Output = field(default_factory=Output)


@click.command(cls=Command)
@click.argument("what", nargs=-1, metavar="[DECISION… | BUNDLE]")
@click.option("--since", type=Duration(), default=None, metavar="TIME", help="All decisions of the last 10m, 1h …")
@click.option("--component", default="", metavar="NAME", help="Only those of this one: scheduler, deployment …")
@click.option(
    "--build",
    default="",
    metavar="DIR",
    help="Decide with another build: the directory that its package `mainstay` is in. The first difference is shown.",
)
@click.option(
    "-o",
    "--output",
    type=OutputType(Form.WIDE, Form.JSON, Form.YAML),
    default=Output(),
    metavar="FORM",
    help="wide: all differences, in full; json, yaml: the answer to each.",
)
@explain_options
def replay(
    what: tuple[str, ...],
    since: timedelta | None,
    component: str,
    build: str,
    output: Output,
    source: Source,
) -> int:
    """Make recorded decisions again, and compare.

    \b
        mainstay replay scheduler-1-6f0c….17          one of them, by its id (`mainstay get decisions`)
        mainstay replay --since 10m                   all of the last ten minutes
        mainstay replay incident.bundle               all that `mainstay record` has put into a file
        mainstay replay incident.bundle --build ../mainstay-next

    What a decision saw is rebuilt from the journal, and decided upon again. It must come out the same: decisions depend
    on nothing else. If it does not, with the same build, that is a bug; please report it with a bundle. With another
    build it shows what would have been different.

    \b
    Exit code: 0 all the same; 2 something differs; 4 nothing of it can be made again; 1 there was an error.
    """
    wanted = Wanted(decisions=what, since=since, component=component, build=build, output=output)
    if what and not source.bundle and not source.journal and _is_bundle(what[0]):
        source, wanted = replace(source, bundle=what[0]), replace(wanted, decisions=what[1:])
    if source.bundle:
        return _of_bundle(source.bundle, wanted)
    if not wanted.decisions and since is None:
        raise click.UsageError("say what: a decision, a bundle, or --since 10m for all of the last ten minutes.")
    now = SystemClock().wall()
    return explain(source, lambda opened, screen: replay_decisions(opened, screen, wanted, now))


async def replay_decisions(opened: Opened, screen: Screen, wanted: Wanted, now: datetime) -> int:
    """Do what the command does with a journal that can be asked. Raises `click.ClickException`, `JournalError`."""
    ends = now if opened.client is not None and not opened.at else (await opened.moment()).at
    if wanted.decisions:
        records = [await _found(opened.journal, name) for name in wanted.decisions]
        since = moment(min(record.now or record.at for record in records)) - _AROUND
        until: datetime | None = moment(max(record.at for record in records)) + _AROUND
    else:
        since, until = ends - (wanted.since or timedelta()), None
        records = []
    contents = await gathered(
        opened.journal, since=since, until=until, build="", made_at=now, rests_on=lambda each: rests_on(each)
    )
    journal = journal_of(contents)
    if not records:
        found = await journal.decisions(component=wanted.component, since=since, limit=_NO_LIMIT)
        records = list(found.records)
    return await _replay(screen, wanted, journal, records, contents)


async def _found(journal: Journal, name: str) -> DecisionRecord:
    record = await journal.decision(name)
    if record is None:
        raise click.ClickException(
            f"the journal has no decision {name}: it was not recorded, or is older than what is kept. "
            "`mainstay get decisions` has those that are there."
        )
    return record


def _of_bundle(path: str, wanted: Wanted) -> int:
    async def run() -> int:
        content = read_bytes(Path(path))
        bundle = open_bundle(content)
        if wanted.decisions:
            records = [await _found(bundle.journal, name) for name in wanted.decisions]
        else:
            since = moment(bundle.head.since) if wanted.since is None else moment(bundle.head.until) - wanted.since
            found = await bundle.journal.decisions(component=wanted.component, since=since, limit=_NO_LIMIT)
            records = list(found.records)
        return await _replay(Terminal(), wanted, bundle.journal, records, content)

    try:
        return tasks.run(run())
    except OSError as error:
        raise click.ClickException(f"cannot read the bundle {path}: {error.strerror}") from None
    except JournalError as error:
        raise click.ClickException(str(error)) from error


def _is_bundle(text: str) -> bool:
    """Whether a word is the name of a file rather than of a decision."""
    if text.endswith(".bundle") or "/" in text:
        return True
    try:
        read_bytes(Path(text))
    except OSError:
        return False
    return True


# Deciding.


async def _replay(
    screen: Screen, wanted: Wanted, journal: Journal, records: Sequence[DecisionRecord], bundle: Contents | bytes
) -> int:
    if not records:
        raise click.ClickException("there are no decisions of that time" + _of(wanted.component))
    answers: dict[str, Answer] = {}
    if wanted.build:
        content = bundle if isinstance(bundle, bytes) else b"".join(packed(bundle))
        answers = await _by_another_build(wanted.build, content, [record.id for record in records])
    else:
        async for record, answer in replay_all(journal, records, DECIDERS):
            answers[record.id] = answer
    summary = Summary()
    for record in records:
        summary.add(record, answers[record.id])
    _show(screen, wanted, records, answers, summary)
    if summary.differences:
        return Exit.BLOCKED
    return Exit.SATISFIED if summary.replayed else Exit.INCOMPLETE


class _Told(msgspec.Struct, frozen=True):
    """One answer, as `-o json` has it."""

    id: str
    answer: str
    field: str = ""
    recorded: str = ""
    now: str = ""
    why: str = ""
    text: str = ""


class _AllTold(msgspec.Struct, frozen=True):
    decisions: list[_Told]


async def _by_another_build(directory: str, bundle: bytes, names: Sequence[str]) -> dict[str, Answer]:
    """Let the command of another build answer. The bundle and `-o json` are what the two have in common."""
    root = Path(os.environ.get("PWD", ""), directory)  # The program is started there, and must find it from there.
    if not is_directory(root / "mainstay"):
        raise click.ClickException(f"{directory} is no build: it has no directory `mainstay` with the package in it")
    command = [sys.executable, "-m", "mainstay.cli.main", "replay", "--bundle", "/dev/stdin", "-o", "json"]
    # A directory that comes first in the path wins over an installed package.
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1"}
    # All of them, if they are too many to be named.
    named = names if len(names) <= NAMED_MAX else ()
    worker = tasks.Worker("another build")
    try:
        finished = await worker.run(
            partial(commands.run_to_end, [*command, *named], given=bundle, env=environment, cwd=root)
        )
    finally:
        worker.close()
    try:
        told = msgspec.json.decode(finished.output, type=_AllTold).decisions
    except msgspec.MsgspecError:
        lines = finished.errors.decode(errors="replace").strip().splitlines() or ["it says nothing"]
        raise click.ClickException(
            f"the build in {directory} cannot replay: {lines[-1]} (exit code {finished.code})"
        ) from None
    answers = {each.id: _answer(each) for each in told}
    missing = CannotReplay(WhyNot.HISTORY_MISSING, f"the build in {directory} has not answered")
    return {name: answers.get(name, missing) for name in names}


def _answer(told: _Told) -> Answer:
    match told.answer:
        case "same":
            return Same()
        case "differs":
            return Differs(told.field, told.recorded, told.now)
        case _:
            return CannotReplay(WhyNot(told.why) if told.why in list(WhyNot) else WhyNot.READ_OUTSIDE, told.text)


# Showing.


def _show(
    screen: Screen,
    wanted: Wanted,
    records: Sequence[DecisionRecord],
    answers: Mapping[str, Answer],
    summary: Summary,
) -> None:
    form = wanted.output.form
    if form in (Form.JSON, Form.YAML):
        told = {
            "decisions": [_as_object(record, answers[record.id]) for record in records],
            "replayed": summary.replayed,
            "agreement": summary.agreement,
        }
        screen.say(json.dumps(told, indent=4, ensure_ascii=False) if form is Form.JSON else yaml_text(told))
        return
    if len(records) == 1:
        for line in _one(records[0], answers[records[0].id], is_wide=form is Form.WIDE):
            screen.say(line)
        return
    for line in _table(screen, summary):
        screen.say(line)
    by = f" by the build in {wanted.build}" if wanted.build else ""
    same = sum(summary.same.values())
    cannot = sum(summary.cannot.values())
    verdict = "all the same" if same == summary.replayed else f"{same} the same, {summary.replayed - same} not"
    rest = f"; {cannot} cannot be" if cannot else ""
    screen.say(f"\n{summary.replayed} decisions made again{by}: {verdict}{rest}.")
    shown = summary.differences if form is Form.WIDE else summary.differences[:DIFFERENCES_SHOWN]
    for record, difference in shown:
        screen.say("")
        for line in _one(record, difference, is_wide=form is Form.WIDE):
            screen.say(line)
    if len(shown) < len(summary.differences):
        screen.say(f"\nand {len(summary.differences) - len(shown)} more; -o wide shows all of them.")


def _table(screen: Screen, summary: Summary) -> list[str]:
    names = sorted({*summary.same, *summary.differs, *(name for name, _ in summary.cannot)})
    rows = []
    for name in names:
        whys = ", ".join(f"{why} {count}" for (who, why), count in sorted(summary.cannot.items()) if who == name)
        rows.append((name, summary.same.get(name, 0), summary.differs.get(name, 0), whys or "-"))
    titles = ("component", "same", "differs", "cannot be made again")
    return TableText(titles, is_coloured=screen.is_coloured).lines(rows, with_titles=True)


def _one(record: DecisionRecord, answer: Answer, *, is_wide: bool) -> list[str]:
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
            lines.append("  the same: made again from the journal, it is decided as it was recorded")
        case Differs(field=where, recorded=recorded, now=now):
            lines += [
                f"  differs in {where}",
                f"    recorded  {_cut(recorded, is_wide)}",
                f"    now       {_cut(now, is_wide)}",
            ]
        case CannotReplay(why=why, text=text):
            lines.append(f"  cannot be made again: {text} ({why})")
    return lines


def _cut(text: str, is_wide: bool) -> str:
    return text if is_wide or len(text) <= _LENGTH_SHOWN else f"{text[:_LENGTH_SHOWN]} …"


def _as_object(record: DecisionRecord, answer: Answer) -> dict[str, Any]:
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


def _of(component: str) -> str:
    return f" of {component}; without --component there may be others" if component else ""
