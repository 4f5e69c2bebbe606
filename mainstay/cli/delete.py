"""`mainstay delete`: remove objects, and wait until they are gone.

What is removed is said at once; then, unless told otherwise, it waits: for containers to end, for finalizers to be
done. An object of the same name that comes after is another one and is not waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import click

from mainstay.api.kind import Object, Propagation
from mainstay.cli.apply import placed
from mainstay.cli.cluster_access import Command, Screen, ask, cluster_options, config_for, explained
from mainstay.cli.durations import Duration
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import Kinds, KnownKind, read_kinds
from mainstay.cli.manifests import Manifest, manifest_options, read_manifests
from mainstay.cli.object_selection import (
    Selection,
    complete_objects,
    everywhere_option,
    namespace_option,
    selection_of,
    selector_options,
)
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound, Unavailable
from mainstay.env import tasks

_PAGE: Final = 500
_LOOK_FIRST: Final = timedelta(milliseconds=100)
_LOOK_EVERY_MAX: Final = timedelta(seconds=1)
_FORCED: Final = (
    "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. "
    "The resource may continue to run on the cluster indefinitely."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    selection: Selection = field(default_factory=Selection)
    said_namespace: str = ""
    """On the command line."""
    all: bool = False
    wait: bool = True
    timeout: timedelta | None = None
    grace_s: int | None = None
    force: bool = False
    propagation: Propagation = Propagation.BACKGROUND
    ignore_not_found: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class _One:
    kind: KnownKind
    namespace: str
    name: str


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="TYPE[/NAME] [NAME]…", shell_complete=complete_objects)
@manifest_options
@namespace_option
@everywhere_option
@selector_options
@click.option("--all", "is_all", is_flag=True, help="All objects of the type.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until they are gone.")
@click.option("--timeout", type=Duration(), metavar="TIME", help="How long to wait.  [default: as long as it takes]")
@click.option(
    "--grace-period", type=click.IntRange(min=-1), default=-1, metavar="SECONDS", help="How long pods may take to end."
)
@click.option("--now", is_flag=True, help="Like --grace-period=1.")
@click.option("--force", is_flag=True, help="Remove pods at once, though they may still run.")
@click.option(
    "--cascade",
    type=click.Choice(["background", "foreground", "orphan"]),
    default="background",
    show_default=True,
    help="What becomes of what they own: removed after them, before them, or not.",
)
@click.option("--ignore-not-found", is_flag=True, help="Do not mind what is not there.")
@click.option("--dry-run", type=click.Choice(["none", "server"]), default="none", show_default=True)
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
    """Remove objects, and wait until they are gone.

    \b
        mainstay delete pod web             mainstay delete -f web.yaml
        mainstay delete pod/a pod/b --now   mainstay delete pods -l app=web --wait=false
    """
    if bool(files) == bool(words):
        raise click.UsageError("say what to delete: TYPE NAME, TYPE/NAME, TYPE -l QUERY, TYPE --all, or -f FILE.")
    config = config_for(kubeconfig, context)
    options = DeleteOptions(
        selection=selection_of(config, namespace, everywhere, selector, field_selector),
        said_namespace=namespace,
        all=is_all,
        wait=wait,
        timeout=timeout,
        grace_s=_grace(grace_period, now, force),
        force=force,
        propagation=Propagation(cascade.capitalize()),
        ignore_not_found=ignore_not_found or is_all,
        dry_run=dry_run == "server",
    )
    manifests = read_manifests(files, recursive=recursive) if files else []
    return ask(config, lambda client, screen: delete_objects(client, screen, words, manifests, options))


def _grace(said: int, now: bool, force: bool) -> int | None:
    if now and said >= 0:
        raise click.UsageError("--now is a grace period of one second: leave out --grace-period.")
    if force and said > 0:
        raise click.UsageError("--force does not wait: leave out --grace-period.")
    if force:
        return 0
    if now or said == 0:
        # Zero would mean not to wait for the containers to end. Who wants that has to say so, with --force.
        return 1
    return said if said > 0 else None


async def delete_objects(
    client: Client, screen: Screen, words: Sequence[str], manifests: Sequence[Manifest], options: DeleteOptions
) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    kinds = await read_kinds(client)
    chosen = _of_manifests(kinds, manifests, options, client.config.namespace)
    if words:
        chosen = await _of_words(client, kinds, words, options)
    if not chosen:
        screen.note("No resources found")
        return Exit.SATISFIED
    if options.force:
        screen.note(_FORCED)
    going: list[tuple[_One, str]] = []
    code: int = Exit.SATISFIED
    for one in chosen:
        try:
            uid = await _deleted(client, one, options)
        except NotFound as error:
            if not options.ignore_not_found:
                screen.note(f"mainstay: {error}")
                code = Exit.ERROR
            continue
        except ApiError as error:
            if isinstance(error, Unavailable) and error.status == 0:
                raise
            screen.note(f"mainstay: {explained(error, client.config)}")
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
            screen.note(f"mainstay: still there when the time was up: {names}")
            return Exit.TIMEOUT
    return code


def _of_manifests(kinds: Kinds, manifests: Sequence[Manifest], options: DeleteOptions, usual: str) -> list[_One]:
    chosen = []
    for manifest in manifests:
        obj = manifest.object
        kind = kinds.of_object(obj["apiVersion"], obj["kind"])
        if kind is None:
            if options.ignore_not_found:
                continue
            raise click.ClickException(
                f'{manifest.where}: the server has no kind "{obj["kind"]}" in version "{obj["apiVersion"]}"'
            )
        metadata = placed(kind, manifest, options.said_namespace, usual)["metadata"]
        chosen.append(_One(kind, metadata.get("namespace", "") if kind.name.namespaced else "", manifest.name))
    return chosen


async def _of_words(client: Client, kinds: Kinds, words: Sequence[str], options: DeleteOptions) -> list[_One]:
    asked = kinds.asked(words)
    selection = options.selection
    is_selected = bool(selection.labels or selection.fields or options.all)
    chosen: list[_One] = []
    for each in asked:
        if each.names and is_selected:
            raise click.UsageError("names, a selector and --all do not go together: leave out all but one.")
        if not each.names and not is_selected:
            raise click.UsageError(f"which {each.kind.name.plural}? Give names, a selector (-l), or --all.")
        if each.names and selection.is_everywhere and each.kind.name.namespaced:
            raise click.UsageError("an object cannot be found by its name in all namespaces: leave out -A.")
        namespace = selection.of(each.kind.name.namespaced)
        if each.names:
            chosen += [_One(each.kind, namespace, name) for name in each.names]
        else:
            chosen += [
                _One(each.kind, found["metadata"].get("namespace", ""), found["metadata"]["name"])
                for found in await _listed(client, each.kind, namespace, selection)
            ]
    return chosen


async def _listed(client: Client, kind: KnownKind, namespace: str, selection: Selection) -> list[Object]:
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


async def _deleted(client: Client, one: _One, options: DeleteOptions) -> str:
    """Remove one. Returns the uid of what was removed, if the server says it."""
    answer = await client.delete(
        one.kind.name,
        one.name,
        one.namespace,
        propagation=options.propagation,
        grace_s=options.grace_s,
        write=WriteOptions(dry_run=options.dry_run),
    )
    said = answer.get("details") if answer.get("kind") == "Status" else answer.get("metadata")
    return str((said or {}).get("uid") or "")


async def _wait(client: Client, going: list[tuple[_One, str]], limit: timedelta | None) -> list[tuple[_One, str]]:
    """Wait until they are gone. Returns those that are still there when the time is up."""
    left = list(going)
    pause = _LOOK_FIRST
    try:
        async with tasks.timeout(limit or None):
            while left:
                left = [each for each in left if await _is_there(client, *each)]
                if left:
                    await tasks.sleep(pause)
                    pause = min(pause * 2, _LOOK_EVERY_MAX)
    except TimeoutError:
        return left
    return []


async def _is_there(client: Client, one: _One, uid: str) -> bool:
    try:
        found = await client.get(one.kind.name, one.name, one.namespace)
    except NotFound:
        return False
    return not uid or found["metadata"].get("uid") == uid
