"""`mainstay logs`: print container logs.

Of one container, of all containers of a pod, or of all pods that a selector finds. Several logs are printed one after
the other; with -f, line by line as they come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from mainstay.api.kind_names import PODS
from mainstay.api.times import format_time, parse_time
from mainstay.cli.cluster_access import Command, Screen, call_cluster, cluster_options, describe_error, load_config
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import read_kinds
from mainstay.cli.object_selection import complete_pods, namespace_option

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.call import Pairs
    from mainstay.client.client import Client

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_TAIL_OF_MANY: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    namespace: str = "default"
    selector: str = ""
    container: str = ""
    all_containers: bool = False
    follow: bool = False
    previous: bool = False
    tail: int | None = None
    since: timedelta | None = None
    since_time: datetime | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    prefix: bool = False
    streams_max: int = 5

    def query(self, container: str) -> "Pairs":
        pairs = [("container", container)]
        for name, is_asked in (
            ("follow", self.follow),
            ("previous", self.previous),
            ("timestamps", self.timestamps),
        ):
            if is_asked:
                pairs.append((name, "true"))
        tail = _TAIL_OF_MANY if self.tail is None and self.selector else self.tail
        if tail is not None and tail >= 0:
            pairs.append(("tailLines", str(tail)))
        if self.since is not None:
            pairs.append(("sinceSeconds", str(max(1, -(-self.since // timedelta(seconds=1))))))
        if self.since_time is not None:
            pairs.append(("sinceTime", format_time(self.since_time)))
        if self.limit_bytes is not None:
            pairs.append(("limitBytes", str(self.limit_bytes)))
        return pairs


class _Time(click.ParamType[datetime]):
    name = "time"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(value)
        except ValueError:
            return self.fail(f"{value!r} is not an RFC 3339 time (for example 2026-01-31T12:00:00Z)", param, ctx)


@click.command(cls=Command)
@click.argument("target", required=False, default="", metavar="POD|TYPE/NAME", shell_complete=complete_pods)
@click.argument("named", required=False, default="", metavar="[CONTAINER]")
@click.option("-c", "--container", default="", metavar="NAME", help="Print the log of this container")
@click.option("--all-containers", is_flag=True, help="Print the logs of all containers")
@click.option("-l", "--selector", default="", metavar="QUERY", help="Print the logs of pods with these labels")
@click.option("-f", "--follow", is_flag=True, help="Print new lines until Ctrl-C")
@click.option("-p", "--previous", is_flag=True, help="Print the log before the last restart")
@click.option("--tail", type=int, metavar="LINES", help="Print the last lines  [default: all; with -l: 10]")
@click.option("--since", type=Duration(), metavar="DURATION", help="Print lines of the last 5s, 2m, 3h")
@click.option("--since-time", type=_Time(), metavar="TIME", help="Print lines after a time (RFC 3339)")
@click.option("--timestamps", is_flag=True, help="Print the time of each line")
@click.option("--limit-bytes", type=click.IntRange(min=1), metavar="BYTES", help="Print at most this many bytes")
@click.option("--prefix", is_flag=True, help="Print pod and container before each line")
@click.option(
    "--max-log-requests",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Limit of logs to follow at once",
)
@namespace_option
@cluster_options
def logs(
    target: str,
    named: str,
    container: str,
    all_containers: bool,
    selector: str,
    follow: bool,
    previous: bool,
    tail: int | None,
    since: timedelta | None,
    since_time: datetime | None,
    timestamps: bool,
    limit_bytes: int | None,
    prefix: bool,
    max_log_requests: int,
    namespace: str,
    kubeconfig: str,
    context: str,
) -> int:
    """Print container logs.

    \b
        mainstay logs web                   mainstay logs -f web -c server
        mainstay logs deploy/web --tail=20  mainstay logs -l app=web --prefix --since=5m
    """
    if target and selector:
        raise click.UsageError("a name and a selector exclude each other: remove one")
    if not target and not selector:
        raise click.UsageError("missing argument POD or TYPE/NAME (for example web-1 or deploy/web), or option -l")
    if since is not None and since_time is not None:
        raise click.UsageError("--since and --since-time exclude each other: remove one")
    if named and container:
        raise click.UsageError(f"two containers: {named!r} and -c {container!r}: remove one")
    if (named or container) and all_containers:
        raise click.UsageError("-c and --all-containers exclude each other: remove one")
    config = load_config(kubeconfig, context)
    options = LogOptions(
        namespace=namespace or config.namespace,
        selector=selector,
        container=container or named,
        all_containers=all_containers,
        follow=follow,
        previous=previous,
        tail=tail,
        since=since,
        since_time=since_time,
        timestamps=timestamps,
        limit_bytes=limit_bytes,
        prefix=prefix,
        streams_max=max_log_requests,
    )
    return call_cluster(config, lambda client, screen: show_logs(client, screen, target, options), is_endless=follow)


@dataclass(frozen=True, slots=True)
class _Source:
    pod: str
    container: str

    @property
    def prefix(self) -> bytes:
        return f"[pod/{self.pod}/{self.container}] ".encode()


async def show_logs(client: "Client", screen: Screen, target: str, options: LogOptions) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    from mainstay.env import tasks

    pods = await _find_pods(client, screen, target, options)
    if not pods:
        screen.note(f"No resources found in {options.namespace} namespace.")
        return Exit.SATISFIED
    sources = [
        _Source(pod["metadata"]["name"], name) for pod in pods for name in _choose_containers(pod, screen, options)
    ]
    if len(sources) == 1 and not options.prefix:
        return await _show(client, screen, sources[0], options, by_line=False)
    if not options.follow:
        return max([await _show(client, screen, each, options, by_line=True) for each in sources])
    if len(sources) > options.streams_max:
        raise click.ClickException(
            f"{len(sources)} logs to follow, but --max-log-requests is {options.streams_max}: select fewer or raise it"
        )
    codes: list[int] = []

    async def follow(source: _Source) -> None:
        codes.append(await _show(client, screen, source, options, by_line=True))

    await tasks.together([follow(each) for each in sources], name="logs")
    return max(codes)


async def _show(client: "Client", screen: Screen, source: _Source, options: LogOptions, *, by_line: bool) -> int:
    """Print one log. An error of one among many does not stop the others."""
    from mainstay.client.errors import ApiError, Unavailable

    path = PODS.path(options.namespace, source.pod, "log")
    prefix = source.prefix if options.prefix else b""
    rest = b""
    has_begun = False
    try:
        async with client.stream(path, options.query(source.container)) as stream:
            async for piece in stream:
                has_begun = True
                if not by_line:
                    screen.write(piece)
                    continue
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    screen.write(prefix + line + b"\n")
    except ApiError as error:
        if not by_line and not has_begun:
            raise
        screen.note(f"mainstay: pod {source.pod}, container {source.container}: {describe_error(error)}")
        return Exit.INCOMPLETE if isinstance(error, Unavailable) else Exit.ERROR
    finally:
        if rest:
            screen.write(prefix + rest + b"\n")
    return Exit.SATISFIED


async def _find_pods(client: "Client", screen: Screen, target: str, options: LogOptions) -> "list[Object]":
    namespace = options.namespace
    if options.selector:
        return (await client.list(PODS, namespace, labels=options.selector)).items
    word, slash, name = target.rpartition("/")
    if not slash:
        return [await client.get(PODS, target, namespace)]
    kind = (await read_kinds(client)).find(word)
    found = await client.get(kind.name, name, namespace if kind.name.namespaced else "")
    if kind.name == PODS:
        return [found]
    selector = _find_selector(found)
    if not selector:
        raise click.ClickException(f"{kind.shown(name)} has no pod selector: name a pod, or use -l")
    pods = (await client.list(PODS, namespace, labels=selector)).items
    if len(pods) > 1:
        pods = sorted(pods, key=_best_first)[:1]
        screen.note(f"Found several pods, using pod/{pods[0]['metadata']['name']}")
    return pods


def _find_selector(owner: "Object") -> str:
    from mainstay.api.tables.texts import labels as labels_text
    from mainstay.api.tables.texts import selector as selector_text

    selector = (owner.get("spec") or {}).get("selector")
    if not isinstance(selector, dict) or not selector:
        return ""
    is_plain = owner.get("kind") in ("Service", "ReplicationController")
    return labels_text(selector) if is_plain else selector_text(selector, empty="", broken="")


def _best_first(pod: "Object") -> tuple[bool, bool, str]:
    """Running and ready pods first: their logs are the most useful."""
    status = pod.get("status") or {}
    is_ready = any(
        each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ()
    )
    return (status.get("phase") != "Running", not is_ready, pod["metadata"]["name"])


def _choose_containers(pod: "Object", screen: Screen, options: LogOptions) -> Sequence[str]:
    spec = pod.get("spec") or {}
    of_init = [each["name"] for each in spec.get("initContainers") or ()]
    usual = [each["name"] for each in spec.get("containers") or ()]
    name = pod["metadata"]["name"]
    if options.all_containers:
        return [*of_init, *usual]
    if options.container:
        if options.container not in (*of_init, *usual):
            known = ", ".join([*of_init, *usual])
            raise click.ClickException(f"container {options.container} not found in pod {name}: it has {known}")
        return [options.container]
    chosen = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    if chosen in of_init or chosen in usual:
        return [str(chosen)]
    if (len(usual) > 1 or of_init) and not options.selector:
        names = [*usual, *(f"{each} (init)" for each in of_init)]
        screen.note(f'Defaulted container "{usual[0]}" out of: {", ".join(names)}')
    return usual[:1]
