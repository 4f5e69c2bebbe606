"""What `why`, `timeline`, `blame` and the other explaining commands share: the journal, and the moment.

A journal is read through the server of a cluster (`--kubeconfig`), from files (`--journal DIR`: the data directory of a
server, which need not run), or from an incident bundle (`--bundle`, made by `mainstay record`). `open_journal` returns
it together with the kinds that users may name, so that `deploy/web` means the same everywhere.

    @click.command(cls=Command)
    @object_argument
    @namespace_option
    @explain_options
    def why(words, namespace, source):
        return explain(source, lambda opened, screen: show_why(opened, screen, words, namespace))

Each command is an `async` function over `OpenJournal` and a `Screen`, so it runs against any journal, in virtual time
too. The journal's own modules are imported when a command runs.
"""

import difflib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEFINITIONS, NAMESPACES
from mainstay.cli.cluster_access import (
    Screen,
    Terminal,
    cluster_options,
    describe_error,
    kubeconfig_places,
    load_config,
)
from mainstay.cli.kinds import Kinds, KindSelection, KnownKind, read_kinds

if TYPE_CHECKING:
    from mainstay.client.client import Client
    from mainstay.client.config import Config
    from mainstay.explain.moment import Moment
    from mainstay.journal.interface import Journal

F = TypeVar("F", bound=Callable[..., Any])

FILES_AFTER: Final = timedelta(seconds=5)
"""How long to wait for a server whose files can be read instead."""
_CLOCKS_DIFFER: Final = timedelta(minutes=1)
_NAMESPACES_NAMED_MAX: Final = 5
_USUAL_TYPES: Final = (
    "pods",
    "deployments",
    "replicasets",
    "jobs",
    "services",
    "nodes",
    "namespaces",
    "resourcequotas",
    "poddisruptionbudgets",
)
_REVISION: Final = re.compile(r"\d+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalChoice:
    """Which journal to read, and at which time. At most one of `bundle` and `journal` is given."""

    kubeconfig: str = ""
    context: str = ""
    bundle: str = ""
    journal: str = ""
    at: str = ""
    """As the user wrote it: see `find_moment`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJournal:
    """A journal that is open for reading."""

    journal: "Journal"
    kinds: Kinds
    namespace: str = "default"
    """The default namespace."""
    at: str = ""
    client: "Client | None" = None
    """The client of the running cluster; None for files and bundles."""
    notes: tuple[str, ...] = ()
    """What the user has to know about the source of the answers."""

    async def moment(self) -> "Moment":
        """Find the moment that `--at` names. Raises `click.ClickException`."""
        return await find_moment(self.journal, self.at)

    def object(self, words: Sequence[str], namespace: str = "") -> "ObjectName":
        """Find the one object that the arguments name. Raises `click.ClickException`."""
        return find_object(self.kinds, words, namespace or self.namespace)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """The name of one object."""

    kind: KindName
    namespace: str
    """Empty if the kind has none."""
    name: str


def explain_options(command: F) -> F:
    """`--at`, `--bundle`, `--journal`, `--kubeconfig`, `--context`: the command receives them as `source`."""

    @wraps(command)
    def with_source(
        *args: Any, kubeconfig: str, context: str, bundle: str, journal: str, at: str, **others: Any
    ) -> Any:
        if bundle and journal:
            raise click.UsageError("--bundle and --journal exclude each other: remove one")
        source = JournalChoice(kubeconfig=kubeconfig, context=context, bundle=bundle, journal=journal, at=at)
        return command(*args, source=source, **others)

    wrapped: Any = cluster_options(with_source)
    wrapped = click.option(
        "--journal",
        default="",
        metavar="DIR",
        help="Read a data directory instead of a server",
    )(wrapped)
    wrapped = click.option("--bundle", default="", metavar="FILE", help="Read a bundle of `mainstay record`")(wrapped)
    return click.option(  # type: ignore[no-any-return]
        "--at",
        default="",
        metavar="TIME",
        help="RFC 3339 time, 10m ago, revision, @DECISION  [default: now]",
    )(wrapped)


def object_argument(command: F) -> F:
    """`TYPE/NAME` or `TYPE NAME`; the command receives it as `words`."""
    from mainstay.cli.object_selection import complete_objects

    return click.argument("words", nargs=-1, metavar="TYPE/NAME", shell_complete=complete_objects)(command)


def explain(
    source: JournalChoice, work: Callable[[OpenJournal, Screen], Awaitable[int]], screen: Screen | None = None
) -> int:
    """Run a command on a journal. Returns its exit code; raises `click.ClickException` if it fails."""
    from mainstay.client.config import BadConfig
    from mainstay.client.errors import ApiError
    from mainstay.env import tasks
    from mainstay.explain.moment import NoSuchMoment
    from mainstay.journal.errors import JournalError

    shown = screen or Terminal()

    async def run() -> int:
        async with open_journal(source) as opened:
            return await work(opened, shown)

    try:
        return tasks.run(run())
    except ApiError as error:
        raise click.ClickException(describe_error(error)) from error
    except (JournalError, NoSuchMoment, BadConfig) as error:
        raise click.ClickException(str(error)) from error


@asynccontextmanager
async def open_journal(source: JournalChoice) -> AsyncIterator[OpenJournal]:
    """Open the journal of a source. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    async with AsyncExitStack() as stack:
        if source.bundle:
            found = await _open_bundle(source.bundle)
        elif source.journal:
            found = await _open_directory(stack, Path(source.journal))
        else:
            found = await _open_cluster(stack, source)
        yield replace(found, at=source.at)


async def _open_cluster(stack: AsyncExitStack, source: JournalChoice) -> OpenJournal:
    from mainstay.client.client import Client
    from mainstay.client.errors import Unavailable
    from mainstay.client.remote_journal import RemoteJournal
    from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks

    config = load_config(source.kubeconfig, source.context)
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(Path()))
    client = await stack.enter_async_context(Client(config, env, user_agent="mainstay"))
    directory = _data_directory(source)
    try:
        # If its files can be read, do not wait for a server that hangs.
        async with tasks.timeout(None if directory is None else FILES_AFTER):
            kinds = await read_kinds(client)
    except TimeoutError:
        assert directory is not None  # Without files there is no time limit.
        return await _open_files(stack, config, directory)
    except Unavailable as error:
        if error.status:
            raise
        if directory is not None:
            return await _open_files(stack, config, directory)
        raise click.ClickException(
            f"{describe_error(error, config)}\nTo read the files of a server that does not run, use --journal DATA_DIR."
        ) from error
    return OpenJournal(journal=RemoteJournal(client), kinds=kinds, namespace=_namespace(config), client=client)


async def _open_files(stack: AsyncExitStack, config: "Config", directory: Path) -> OpenJournal:
    """Open the files of a server that does not answer."""
    found = await _open_directory(stack, directory)
    note = f"the API server does not answer; reading its files in {directory}"
    return replace(found, namespace=_namespace(config), notes=(note, *found.notes))


def _data_directory(source: JournalChoice) -> Path | None:
    """Find the data directory of a server on this machine: the kubeconfig of `mainstay up` is in it."""
    from mainstay.env.disk import is_directory

    for path in kubeconfig_places(source.kubeconfig):
        if is_directory(path.parent / "journal"):
            return path.parent
    return None


def _namespace(config: "Config") -> str:
    return config.namespace or "default"


async def _open_directory(stack: AsyncExitStack, path: Path) -> OpenJournal:
    from mainstay.env import SystemDisk
    from mainstay.env.disk import files_below
    from mainstay.journal.files import Series, parsed_name
    from mainstay.journal.local_journal import LocalJournal
    from mainstay.journal.reader import Reader

    files = files_below(path, deep=True)
    if files is None:
        raise click.ClickException(f"directory {path} not found")
    parsed = {file: name for file in files if (name := parsed_name(file.name)) is not None}
    directories = sorted({file.parent for file in parsed})
    if not directories:
        raise click.ClickException(
            f"no journal in {path}: name the data directory of a server that runs without --no-journal"
        )
    histories = sorted({file.parent for file, name in parsed.items() if name.series is Series.HISTORY})
    if len(histories) > 1:
        listed = "".join(f"\n  {each}" for each in histories)
        raise click.ClickException(f"{path} contains the journals of {len(histories)} clusters: name one{listed}")
    disks = [SystemDisk(each) for each in directories]
    for disk in disks:
        stack.callback(disk.close)
    journal = LocalJournal(Reader(*disks))
    stack.callback(journal.close)
    return OpenJournal(journal=journal, kinds=await list_kinds(journal), notes=await _note_age(journal))


async def _note_age(journal: "Journal") -> tuple[str, ...]:
    """Say how old files are: their server may have stopped long ago."""
    from mainstay.explain.moment import Moment, NoSuchMoment

    try:
        latest = await Moment.now(journal)
    except NoSuchMoment:
        return ()
    return (f"as of {latest.at:%Y-%m-%d %H:%M:%S} UTC (revision {latest.revision}), the last change in these files",)


async def _open_bundle(path: str) -> OpenJournal:
    from mainstay.env.disk import read_bytes
    from mainstay.journal.bundle import open_bundle

    try:
        content = read_bytes(Path(path))
    except OSError as error:
        raise click.ClickException(f"cannot read bundle {path}: {error.strerror}") from None
    journal = open_bundle(content).journal
    return OpenJournal(journal=journal, kinds=await list_kinds(journal))


async def find_moment(journal: "Journal", at: str, option: str = "--at") -> "Moment":
    """Find the moment that a text names: a time, a duration ago, a revision, or `@` and a decision. Empty: now.

    A duration counts back from the end of the journal, so that it has a meaning in a bundle too. `option` is the option
    that the text comes from. Raises `click.ClickException`.
    """
    from mainstay.api import times
    from mainstay.env import SystemClock
    from mainstay.explain.moment import Moment, NoSuchMoment
    from mainstay.journal.record import moment

    try:
        if not at:
            return await Moment.now(journal)
        if _REVISION.fullmatch(at):
            return await Moment.at_revision(journal, int(at))
        if at.startswith("@"):
            record = await journal.decision(at[1:])
            if record is None:
                raise click.ClickException(f"decision {at[1:]} not found in the journal")
            return await Moment.at_time(journal, moment(record.at))
        try:
            ago: timedelta = times.parse_duration(at)
        except ValueError:
            pass
        else:
            if ago < timedelta():
                raise _in_the_future(option, at)
            now = await Moment.now(journal)
            return await Moment.at_time(journal, now.at - ago)
        try:
            time = times.parse_time(at)
        except ValueError:
            raise click.UsageError(
                f"{option} must be a time (RFC 3339), a duration (10m), a revision or @DECISION, not {at!r}"
            ) from None
        if time > SystemClock().wall() + _CLOCKS_DIFFER:
            raise _in_the_future(option, at)
        return await Moment.at_time(journal, time)
    except NoSuchMoment as error:
        raise click.ClickException(f"{option} {at}: {error}" if at else str(error)) from None


def _in_the_future(option: str, at: str) -> click.UsageError:
    return click.UsageError(f"{option} {at} is in the future: use `mainstay plan` to predict")


def find_object(kinds: Kinds, words: Sequence[str], namespace: str) -> ObjectName:
    """Find the object that `TYPE/NAME` or `TYPE NAME` names. Raises `click.ClickException`."""
    if not words:
        raise click.UsageError("missing argument TYPE/NAME (for example pod/web-1)")
    selected = _select(kinds, words)
    if len(selected) > 1 or len(selected[0].names) != 1:
        raise click.UsageError(f"{' '.join(words)!r} is not one object: use TYPE/NAME (for example pod/web-1)")
    kind = selected[0].kind.name
    return ObjectName(kind, namespace if kind.namespaced else "", selected[0].names[0])


def _select(kinds: Kinds, words: Sequence[str]) -> list[KindSelection]:
    try:
        return kinds.select(words)
    except click.UsageError:
        raise
    except click.ClickException as error:
        if len(words) == 1 and "/" not in words[0]:
            raise click.UsageError(
                f"{words[0]!r} is not a type: use TYPE/NAME (for example pod/{words[0]} or deploy/{words[0]})"
            ) from None
        served = kinds.words()
        usual = [each for each in _USUAL_TYPES if each in served]
        more = f" and {len(served) - len(usual)} more (`kubectl api-resources`)" if len(served) > len(usual) else ""
        raise click.ClickException(f"{error.format_message()}\nKnown types: {', '.join(usual)}{more}") from None


async def find_elsewhere(moment: "Moment", asked: ObjectName) -> str:
    """Find an object of this name in other namespaces, and describe where it is; empty if there is none.

    Also says if the namespace does not exist. Raises `JournalUnreachable`.
    """
    if not asked.kind.namespaced:
        return ""
    spaces = [
        str(each["metadata"].get("namespace") or "")
        for each in await moment.all(asked.kind)
        if each["metadata"]["name"] == asked.name
    ]
    known = {str(each["metadata"]["name"]) for each in await moment.all(NAMESPACES)}
    parts = []
    if known and asked.namespace not in known:
        near = difflib.get_close_matches(asked.namespace, sorted(known), n=1)
        parts.append(f"namespace {asked.namespace} not found" + (f"; did you mean {near[0]}?" if near else ""))
    if others := sorted({space for space in spaces if space != asked.namespace}):
        shown = ", ".join(f"-n {space}" for space in others[:_NAMESPACES_NAMED_MAX])
        more = f" and {len(others) - _NAMESPACES_NAMED_MAX} more" if len(others) > _NAMESPACES_NAMED_MAX else ""
        where = "another namespace" if len(others) == 1 else f"{len(others)} other namespaces"
        parts.append(f"there is a {asked.kind.kind} {asked.name} in {where}: {shown}{more}")
    return "; ".join(parts)


async def not_found_error(error: Exception, moment: "Moment", asked: ObjectName) -> click.ClickException:
    """Build the error for an object that does not exist, with where one of its name is instead."""
    hint = await find_elsewhere(moment, asked)
    return click.ClickException(f"{error}\n{hint[0].upper()}{hint[1:]}" if hint else str(error))


async def list_kinds(journal: "Journal") -> Kinds:
    """List the kinds that a journal can have objects of: the built-in ones, and those that users defined."""
    from mainstay.api.kinds import BUILTIN
    from mainstay.explain.moment import Moment, NoSuchMoment

    known = [
        KnownKind(kind.reference, kind.singular, kind.short_names, kind.categories, kind.verbs) for kind in BUILTIN
    ]
    try:
        now = await Moment.now(journal)
    except NoSuchMoment:
        return Kinds(known)
    for definition in await now.all(DEFINITIONS):
        spec = definition.get("spec") or {}
        names = spec.get("names") or {}
        for version in spec.get("versions") or ():
            if version.get("served"):
                name = KindName(
                    spec["group"], version["name"], names["kind"], names["plural"], spec.get("scope") == "Namespaced"
                )
                short_names = tuple(names.get("shortNames") or ())
                known.append(KnownKind(name, names.get("singular") or names["kind"].lower(), short_names, (), ("get",)))
    return Kinds(known)
