"""What `why`, `timeline`, `blame` and the other commands that explain have in common: the journal, and the moment.

A journal is that of a cluster, through its server (`--kubeconfig`); or the files of one (`--journal DIR`: a data
directory, also of a server that does not run); or an incident in one file (`--bundle`, from `mainstay record`).
`opened` gives it together with the kinds that people may name, so that `deploy/web` means the same everywhere.

    @click.command(cls=Command)
    @object_argument
    @namespace_option
    @explain_options
    def why(words, namespace, source):
        return explain(source, lambda asked, screen: show_why(asked, screen, words, namespace))

Each command is an `async` function over `Opened` and a `Screen`, so that it can be run against any journal, in virtual
time too.
"""

import difflib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from mainstay.api import times
from mainstay.api.kind import Kind
from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN
from mainstay.cli.cluster_access import Screen, Terminal, cluster_options, config_for, explained, kubeconfig_places
from mainstay.cli.kinds import Asked as KindAsked
from mainstay.cli.kinds import Kinds, KnownKind, read_kinds
from mainstay.client.client import Client
from mainstay.client.config import BadConfig, Config
from mainstay.client.errors import ApiError, Unavailable
from mainstay.env import Chance, Env, SystemClock, SystemDisk, tasks
from mainstay.env.disk import files_below, is_directory, read_bytes
from mainstay.explain.moment import Moment, NoSuchMoment
from mainstay.journal.errors import JournalError
from mainstay.journal.files import Series, parsed_name
from mainstay.journal.interface import Journal
from mainstay.journal.local_journal import LocalJournal
from mainstay.journal.reader import Reader
from mainstay.journal.record import moment

F = TypeVar("F", bound=Callable[..., Any])

DEFINITIONS: Final = KindName(
    "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False
)
FILES_AFTER: Final = timedelta(seconds=5)
"""So long a server is waited for whose files can be read as well."""
_CLOCKS_DIFFER: Final = timedelta(minutes=1)
_NAMESPACES: Final = KindName("", "v1", "Namespace", "namespaces", False)
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
class Source:
    """Which journal is asked, and about when. At most one of `bundle` and `journal` is given."""

    kubeconfig: str = ""
    context: str = ""
    bundle: str = ""
    journal: str = ""
    at: str = ""
    """As it was written: see `moment_at`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A journal that can be asked."""

    journal: Journal
    kinds: Kinds
    namespace: str = "default"
    """Where to look if nothing is said."""
    at: str = ""
    client: Client | None = None
    """Of the living cluster, if it is one."""
    notes: tuple[str, ...] = ()
    """What is to be known of where the answers come from."""

    async def moment(self) -> Moment:
        """The moment that is asked about. Raises `click.ClickException`."""
        return await moment_at(self.journal, self.at)

    def object(self, words: Sequence[str], namespace: str = "") -> "Asked":
        """The one object that the words of a command line name. Raises `click.ClickException`."""
        return one_object(self.kinds, words, namespace or self.namespace)


@dataclass(frozen=True, slots=True)
class Asked:
    """One object."""

    kind: KindName
    namespace: str
    """Empty if the kind has none."""
    name: str


def explain_options(command: F) -> F:
    """`--at`, `--bundle`, `--journal`, `--kubeconfig`, `--context`: they come to the command as `source`."""

    @wraps(command)
    def with_source(
        *args: Any, kubeconfig: str, context: str, bundle: str, journal: str, at: str, **others: Any
    ) -> Any:
        if bundle and journal:
            raise click.UsageError("--bundle and --journal do not go together: leave out one of them.")
        source = Source(kubeconfig=kubeconfig, context=context, bundle=bundle, journal=journal, at=at)
        return command(*args, source=source, **others)

    wrapped: Any = cluster_options(with_source)
    wrapped = click.option(
        "--journal",
        default="",
        metavar="DIR",
        help="Read the files of a data directory instead of asking a server; it need not run.",
    )(wrapped)
    wrapped = click.option("--bundle", default="", metavar="FILE", help="Ask a file that `mainstay record` made.")(
        wrapped
    )
    return click.option(  # type: ignore[no-any-return]
        "--at",
        default="",
        metavar="TIME|REVISION",
        help="As it was then: 2026-11-16T05:49:00Z, 10m (ago), a revision, or @DECISION.  [default: now]",
    )(wrapped)


def object_argument(command: F) -> F:
    """`TYPE/NAME` or `TYPE NAME`; it comes to the command as `words`."""
    from mainstay.cli.object_selection import complete_objects

    return click.argument("words", nargs=-1, metavar="TYPE/NAME", shell_complete=complete_objects)(command)


def explain(source: Source, work: Callable[[Opened, Screen], Awaitable[int]], screen: Screen | None = None) -> int:
    """Run a command on a journal. Returns its exit code; raises `click.ClickException` if it fails."""

    async def run() -> int:
        async with opened(source) as asked:
            return await work(asked, shown)

    shown = screen or Terminal()
    try:
        return tasks.run(run())
    except ApiError as error:
        raise click.ClickException(explained(error)) from error
    except (JournalError, NoSuchMoment, BadConfig) as error:
        raise click.ClickException(str(error)) from error


@asynccontextmanager
async def opened(source: Source) -> AsyncIterator[Opened]:
    """Open the journal that is meant. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    async with AsyncExitStack() as stack:
        if source.bundle:
            found = await _of_bundle(source.bundle)
        elif source.journal:
            found = await _of_directory(stack, Path(source.journal))
        else:
            found = await _of_cluster(stack, source)
        yield replace(found, at=source.at)


async def _of_cluster(stack: AsyncExitStack, source: Source) -> Opened:
    from mainstay.client.remote_journal import RemoteJournal

    config = config_for(source.kubeconfig, source.context)
    env = Env(SystemClock(), Chance.fresh(), SystemDisk(Path()))
    client = await stack.enter_async_context(Client(config, env, user_agent="mainstay"))
    directory = _data_directory(source)
    try:
        # With files to turn to, nobody needs to wait for a server that hangs.
        async with tasks.timeout(None if directory is None else FILES_AFTER):
            kinds = await read_kinds(client)
    except TimeoutError:
        assert directory is not None  # Without files there is no time limit.
        return await _of_files(stack, config, directory)
    except Unavailable as error:
        if error.status:
            raise
        if directory is not None:
            return await _of_files(stack, config, directory)
        raise click.ClickException(
            f"{explained(error, config)}\n"
            "The files of a server that does not run can be asked as well: --journal with its data directory."
        ) from error
    return Opened(journal=RemoteJournal(client), kinds=kinds, namespace=_namespace(config), client=client)


async def _of_files(stack: AsyncExitStack, config: Config, directory: Path) -> Opened:
    """Instead of a server that does not answer."""
    found = await _of_directory(stack, directory)
    note = f"the API server does not answer: this is what its files in {directory} say"
    return replace(found, namespace=_namespace(config), notes=(note, *found.notes))


def _data_directory(source: Source) -> Path | None:
    """That of the server, if it is on this machine: the kubeconfig of `mainstay up` is in it."""
    for path in kubeconfig_places(source.kubeconfig):
        if is_directory(path.parent / "journal"):
            return path.parent
    return None


def _namespace(config: Config) -> str:
    return config.namespace or "default"


async def _of_directory(stack: AsyncExitStack, path: Path) -> Opened:
    files = files_below(path, deep=True)
    if files is None:
        raise click.ClickException(f"there is no directory {path}")
    directories = sorted({file.parent for file in files if parsed_name(file.name) is not None})
    if not directories:
        raise click.ClickException(
            f"{path} has no journal: name the data directory of a server, or its `journal` in it. "
            "A server that was started with --no-journal has none."
        )
    histories = sorted({file.parent for file in files if _is_history(file.name)})
    if len(histories) > 1:
        listed = "".join(f"\n  {each}" for each in histories)
        raise click.ClickException(f"{path} has the journals of several clusters: name one of them.{listed}")
    disks = [SystemDisk(each) for each in directories]
    for disk in disks:
        stack.callback(disk.close)
    journal = LocalJournal(Reader(*disks))
    stack.callback(journal.close)
    return Opened(journal=journal, kinds=await kinds_of(journal), notes=await _as_of(journal))


async def _as_of(journal: Journal) -> tuple[str, ...]:
    """Files may be of a server that stopped long ago, and what they say is not what is."""
    try:
        latest = await Moment.now(journal)
    except NoSuchMoment:
        return ()
    return (f"as of {latest.at:%Y-%m-%d %H:%M:%S} UTC (revision {latest.revision}), the last change in these files",)


def _is_history(name: str) -> bool:
    parsed = parsed_name(name)
    return parsed is not None and parsed.series is Series.HISTORY


async def _of_bundle(path: str) -> Opened:
    from mainstay.journal.bundle import open_bundle

    try:
        content = read_bytes(Path(path))
    except OSError as error:
        raise click.ClickException(f"cannot read the bundle {path}: {error.strerror}") from None
    journal = open_bundle(content).journal
    return Opened(journal=journal, kinds=await kinds_of(journal))


async def moment_at(journal: Journal, at: str, option: str = "--at") -> Moment:
    """The moment that a text names: a time, how long ago, a revision, or `@` and a decision. Empty: now.

    "Ago" is counted back from the journal's end, so that it means something in a bundle, too. `option` is where people
    wrote it. Raises `click.ClickException`.
    """
    try:
        if not at:
            return await Moment.now(journal)
        if _REVISION.fullmatch(at):
            return await Moment.at_revision(journal, int(at))
        if at.startswith("@"):
            record = await journal.decision(at[1:])
            if record is None:
                raise click.ClickException(f"the journal has no decision {at[1:]}")
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
                f"{option} {at!r} is no time (2026-11-16T05:49:00Z), no length of time (10m), no revision, "
                "no @decision."
            ) from None
        if time > SystemClock().wall() + _CLOCKS_DIFFER:
            raise _in_the_future(option, at)
        return await Moment.at_time(journal, time)
    except NoSuchMoment as error:
        raise click.ClickException(f"{option} {at}: {error}" if at else str(error)) from None


def _in_the_future(option: str, at: str) -> click.UsageError:
    return click.UsageError(f"{option} {at} is in the future: `mainstay plan` is for what would happen.")


def one_object(kinds: Kinds, words: Sequence[str], namespace: str) -> Asked:
    """What `TYPE/NAME` or `TYPE NAME` names. Raises `click.ClickException`."""
    if not words:
        raise click.UsageError("say what: TYPE/NAME, as in `pod/web-1` or `deploy/web`.")
    asked = _kinds_asked(kinds, words)
    if len(asked) > 1 or len(asked[0].names) != 1:
        raise click.UsageError("say which one, and only one: TYPE/NAME, as in `pod/web-1` or `deploy/web`.")
    kind = asked[0].kind.name
    return Asked(kind, namespace if kind.namespaced else "", asked[0].names[0])


def _kinds_asked(kinds: Kinds, words: Sequence[str]) -> list[KindAsked]:
    try:
        return kinds.asked(words)
    except click.UsageError:
        raise
    except click.ClickException as error:
        if len(words) == 1 and "/" not in words[0]:
            said = f"{words[0]!r} is no type: say TYPE/NAME, as in `pod/{words[0]}` or `deploy/{words[0]}`."
            raise click.UsageError(said) from None
        served = kinds.words()
        usual = [each for each in _USUAL_TYPES if each in served]
        more = f" and {len(served) - len(usual)} more (`kubectl api-resources`)" if len(served) > len(usual) else ""
        message = error.format_message()
        stop = "" if message.endswith("?") else "."
        raise click.ClickException(f"{message}{stop} There are {', '.join(usual)}{more}.") from None


async def elsewhere(moment: Moment, asked: Asked) -> str:
    """Where an object of this name is, when it is not where it was looked for; empty if nowhere.

    Also says if there is no such namespace. Raises `JournalUnreachable`.
    """
    if not asked.kind.namespaced:
        return ""
    spaces = [
        str(each["metadata"].get("namespace") or "")
        for each in await moment.all(asked.kind)
        if each["metadata"]["name"] == asked.name
    ]
    known = {str(each["metadata"]["name"]) for each in await moment.all(_NAMESPACES)}
    parts = []
    if known and asked.namespace not in known:
        near = difflib.get_close_matches(asked.namespace, sorted(known), n=1)
        parts.append(f"there is no namespace {asked.namespace}" + (f"; perhaps {near[0]} was meant" if near else ""))
    if others := sorted({space for space in spaces if space != asked.namespace}):
        shown = ", ".join(f"-n {space}" for space in others[:_NAMESPACES_NAMED_MAX])
        more = f" and {len(others) - _NAMESPACES_NAMED_MAX} more" if len(others) > _NAMESPACES_NAMED_MAX else ""
        where = "another namespace" if len(others) == 1 else f"{len(others)} other namespaces"
        parts.append(f"there is a {asked.kind.kind} {asked.name} in {where}: {shown}{more}")
    return "; ".join(parts)


async def nothing_known(error: Exception, moment: Moment, asked: Asked) -> click.ClickException:
    """What to raise when there is no such object: what is known of it, and where it is instead."""
    hint = await elsewhere(moment, asked)
    return click.ClickException(f"{error}\n{hint[0].upper()}{hint[1:]}" if hint else str(error))


async def kinds_of(journal: Journal) -> Kinds:
    """The kinds that a journal can have objects of: those that are always there, and those that users had defined."""
    known = [_known(kind) for kind in BUILTIN]
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


def _known(kind: Kind) -> KnownKind:
    return KnownKind(kind.reference, kind.singular, kind.short_names, kind.categories, kind.verbs)
