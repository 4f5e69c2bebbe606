"""`mainstay delete`: delete objects and wait for the deletion.

It waits for containers to end and for finalizers, unless --wait=false. It does not wait for an object that was created
under the same name afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from mainstay.cli.cluster_access import Command, Screen, call_cluster, cluster_options, describe_error, load_config
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import Kinds, KnownKind, read_kinds
from mainstay.cli.manifests import Manifest, manifest_options, place, read_manifests
from mainstay.cli.object_selection import (
    NAME_EVERYWHERE,
    ObjectSelection,
    complete_objects,
    everywhere_option,
    make_selection,
    namespace_option,
    selector_options,
)

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.client import Client

_PAGE: Final = 500
_LOOK_FIRST: Final = timedelta(milliseconds=100)
_LOOK_EVERY_MAX: Final = timedelta(seconds=1)
_FORCED: Final = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
    "The resource may continue to run on the cluster indefinitely."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteArguments:
    selection: ObjectSelection = field(default_factory=ObjectSelection)
    given_namespace: str = ""
    """From the command line."""
    all: bool = False
    wait: bool = True
    timeout: timedelta | None = None
    grace_s: int | None = None
    force: bool = False
    cascade: str = "background"
    ignore_not_found: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _Target:
    kind: KnownKind
    namespace: str
    name: str


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="TYPE[/NAME] [NAME]…", shell_complete=complete_objects)
@manifest_options
@namespace_option
@everywhere_option
@selector_options
@click.option("--all", "is_all", is_flag=True, help="Delete all objects of the type")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait for the deletion")
@click.option("--timeout", type=Duration(), metavar="DURATION", help="How long to wait  [default: no limit]")
@click.option(
    "--grace-period", type=click.IntRange(min=-1), default=-1, metavar="SECONDS", help="Time for pods to terminate"
)
@click.option("--now", is_flag=True, help="Same as --grace-period=1")
@click.option("--force", is_flag=True, help="Delete pods that may still run")
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="When to delete dependents",
)
@click.option("--ignore-not-found", is_flag=True, help="Ignore objects that do not exist")
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    show_default=True,
    help="server: validate, but change nothing",
)
@cluster_options
def delete(
    words: tuple[str, ...],
    files: tuple[str, ...],
    recursive: bool,
    namespace: str,
    everywhere: bool,
    selector: str,
    field_selector: str,
    is_all: bool,
    wait: bool,
    timeout: timedelta | None,
    grace_period: int,
    now: bool,
    force: bool,
    cascade: str,
    ignore_not_found: bool,
    dry_run: str,
    kubeconfig: str,
    context: str,
) -> int:
    """Delete objects and wait for the deletion.

    \b
        mainstay delete pod web             mainstay delete -f web.yaml
        mainstay delete pod/a pod/b --now   mainstay delete pods -l app=web --wait=false
    """
    if files and words:
        raise click.UsageError("-f and TYPE/NAME exclude each other: remove one")
    if not files and not words:
        raise click.UsageError("missing argument TYPE/NAME (for example pod/web-1), or option -f FILE")
    config = load_config(kubeconfig, context)
    options = DeleteArguments(
        selection=make_selection(config, namespace, everywhere, selector, field_selector),
        given_namespace=namespace,
        all=is_all,
        wait=wait,
        timeout=timeout,
        grace_s=_grace(grace_period, now, force),
        force=force,
        cascade=cascade,
        ignore_not_found=ignore_not_found or is_all,
        dry_run=dry_run == "server",
    )
    manifests = read_manifests(files, recursive=recursive) if files else []
    return call_cluster(config, lambda client, screen: delete_objects(client, screen, words, manifests, options))


def _grace(given: int, now: bool, force: bool) -> int | None:
    if now and given >= 0:
        raise click.UsageError("--now and --grace-period exclude each other: remove one")
    if force and given > 0:
        raise click.UsageError("--force and --grace-period exclude each other: remove one")
    if force:
        return 0
    if now or given == 0:
        # Zero would delete pods before their containers end, which needs --force.
        return 1
    return given if given > 0 else None


async def delete_objects(
    client: "Client", screen: Screen, words: Sequence[str], manifests: Sequence[Manifest], options: DeleteArguments
) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    from mainstay.client.errors import ApiError, NotFound, Unavailable

    kinds = await read_kinds(client)
    chosen = _select_manifests(kinds, manifests, options, client.config.namespace)
    if words:
        chosen = await _select_words(client, kinds, words, options)
    if not chosen:
        screen.note("No resources found")
        return Exit.SATISFIED
    if options.force:
        screen.note(_FORCED)
    going: list[tuple[_Target, str]] = []
    code: int = Exit.SATISFIED
    for one in chosen:
        try:
            uid = await _delete(client, one, options)
        except NotFound as error:
            if not options.ignore_not_found:
                screen.note(f"mainstay: {error}")
                code = Exit.ERROR
            continue
        except ApiError as error:
            if isinstance(error, Unavailable) and error.status == 0:
                raise
            screen.note(f"mainstay: {describe_error(error, client.config)}")
            code = Exit.ERROR
            continue
        kind, _, _ = one.kind.shown(one.name).rpartition("/")
        how = "force deleted" if options.force else "deleted"
        screen.say(f'{kind} "{one.name}" {how}{" (server dry run)" if options.dry_run else ""}')
        going.append((one, uid))
    if options.wait and not options.dry_run:
        left = await _wait(client, going, options.timeout)
        if left:
            names = ", ".join(one.kind.shown(one.name) for one, _ in left)
            screen.note(f"mainstay: timed out waiting for the deletion of {names}")
            return Exit.TIMEOUT
    return code


def _select_manifests(
    kinds: Kinds, manifests: Sequence[Manifest], options: DeleteArguments, default: str
) -> list[_Target]:
    chosen = []
    for manifest in manifests:
        obj = manifest.object
        kind = kinds.find_for(obj["apiVersion"], obj["kind"])
        if kind is None:
            if options.ignore_not_found:
                continue
            raise click.ClickException(f"{manifest.where}: {manifest.unknown_kind}")
        metadata = place(kind, manifest, options.given_namespace, default)["metadata"]
        chosen.append(_Target(kind, metadata.get("namespace", "") if kind.name.namespaced else "", manifest.name))
    return chosen


async def _select_words(
    client: "Client", kinds: Kinds, words: Sequence[str], options: DeleteArguments
) -> list[_Target]:
    selection = options.selection
    is_selected = bool(selection.labels or selection.fields or options.all)
    chosen: list[_Target] = []
    for each in kinds.select(words):
        if each.names and is_selected:
            raise click.UsageError("names, a selector and --all exclude each other: keep one")
        if not each.names and not is_selected:
            raise click.UsageError(f"missing the names of {each.kind.name.plural}, a selector (-l) or --all")
        if each.names and selection.is_everywhere and each.kind.name.namespaced:
            raise click.UsageError(NAME_EVERYWHERE)
        namespace = selection.namespace_for(each.kind.name)
        if each.names:
            chosen += [_Target(each.kind, namespace, name) for name in each.names]
        else:
            chosen += [
                _Target(each.kind, found["metadata"].get("namespace", ""), found["metadata"]["name"])
                for found in await _list(client, each.kind, namespace, selection)
            ]
    return chosen


async def _list(client: "Client", kind: KnownKind, namespace: str, selection: ObjectSelection) -> "list[Object]":
    found: list[Object] = []
    more = ""
    while True:
        page = await client.list(
            kind.name, namespace, labels=selection.labels, fields=selection.fields, limit=_PAGE, continue_=more
        )
        found += page.items
        more = page.continue_
        if not more:
            return found


async def _delete(client: "Client", one: _Target, options: DeleteArguments) -> str:
    """Delete one object. Returns its uid if the server tells it."""
    from mainstay.api.kind import Propagation
    from mainstay.client.call import WriteOptions

    answer = await client.delete(
        one.kind.name,
        one.name,
        one.namespace,
        propagation=Propagation(options.cascade.capitalize()),
        grace_s=options.grace_s,
        write=WriteOptions(dry_run=options.dry_run),
    )
    details = answer.get("details") if answer.get("kind") == "Status" else answer.get("metadata")
    return str((details or {}).get("uid") or "")


async def _wait(
    client: "Client", going: list[tuple[_Target, str]], limit: timedelta | None
) -> list[tuple[_Target, str]]:
    """Wait for the deletion. Returns the objects that still exist when the time is up."""
    from mainstay.env import tasks

    left = list(going)
    pause = _LOOK_FIRST
    try:
        async with tasks.timeout(limit or None):
            while left:
                left = [each for each in left if await _exists(client, *each)]
                if left:
                    await tasks.sleep(pause)
                    pause = min(pause * 2, _LOOK_EVERY_MAX)
    except TimeoutError:
        return left
    return []


async def _exists(client: "Client", one: _Target, uid: str) -> bool:
    from mainstay.client.errors import NotFound

    try:
        found = await client.get(one.kind.name, one.name, one.namespace)
    except NotFound:
        return False
    return not uid or found["metadata"].get("uid") == uid
