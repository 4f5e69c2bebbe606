"""`mainstay apply`: make the cluster have what files say.

Server-side apply: the server merges, and remembers which fields are ours (field manager `mainstay`). Applied again,
what is in no file any more is taken back, and what others own is left alone or, if it is in the way, said to be.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import click

from mainstay.api.kind import Object
from mainstay.cli.cluster_access import MANAGER, Command, Screen, ask, cluster_options, config_for, explained
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import Kinds, KnownKind, read_kinds
from mainstay.cli.manifests import Manifest, manifest_options, read_manifests
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Form, Output, OutputType, complete, print_objects
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound, Unavailable
from mainstay.env import tasks

_KIND_WITHIN: Final = timedelta(seconds=10)
"""How long a kind that was defined just before may take to be served."""
_LOOK_EVERY: Final = timedelta(milliseconds=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    namespace: str = ""
    """As said on the command line. Empty: the object's own, else that of the kubeconfig."""
    dry_run: bool = False
    force_conflicts: bool = False
    output: Output = field(default_factory=Output)


@click.command(cls=Command)
@manifest_options
@namespace_option
@click.option(
    "--dry-run",
    type=click.Choice(["none", "server"]),
    default="none",
    show_default=True,
    help="server: say what would become of it, and change nothing.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others own.")
@click.option(
    "-o",
    "--output",
    type=OutputType(Form.NAME, Form.JSON, Form.YAML),
    default=Output(),
    metavar="FORM",
    help="name, json or yaml.  [default: a line for each object]",
)
@click.option("--server-side", is_flag=True, hidden=True, help="Always so, here.")
@cluster_options
def apply(
    files: tuple[str, ...],
    recursive: bool,
    namespace: str,
    dry_run: str,
    force_conflicts: bool,
    output: Output,
    server_side: bool,
    kubeconfig: str,
    context: str,
) -> int:
    """Make the cluster have what files say.

    \b
        mainstay apply -f web.yaml
        mainstay apply -f manifests/ --dry-run=server
        cat web.yaml | mainstay apply -f -
    """
    if not files:
        raise click.UsageError("say what to apply: -f FILE, -f DIR or -f -.")
    config = config_for(kubeconfig, context)
    manifests = read_manifests(files, recursive=recursive)
    options = ApplyOptions(
        namespace=namespace,
        dry_run=dry_run == "server",
        force_conflicts=force_conflicts,
        output=output,
    )
    return ask(config, lambda client, screen: apply_all(client, screen, manifests, options))


async def apply_all(client: Client, screen: Screen, manifests: Sequence[Manifest], options: ApplyOptions) -> int:
    """Apply one after the other. What is refused is said, and does not keep the others from being applied."""
    kinds = _Served(client, await read_kinds(client))
    done: list[tuple[KnownKind, Object]] = []
    code: int = Exit.SATISFIED
    for manifest in manifests:
        try:
            kind = await kinds.of(manifest)
            obj = placed(kind, manifest, options.namespace, client.config.namespace)
            before = await _read(client, kind, obj)
            after = await _applied(client, kind, obj, options)
        except Unavailable as error:
            if error.status == 0:
                raise  # It will not be better with the next one.
            screen.note(f"mainstay: {manifest.where}: {error}")
            code = Exit.ERROR
            continue
        except (ApiError, click.ClickException) as error:
            words = explained(error, client.config) if isinstance(error, ApiError) else error.format_message()
            screen.note(f"mainstay: {manifest.where}: {words}")
            code = Exit.ERROR
            continue
        done.append((kind, complete(kind, after)))
        if options.output.is_table:
            what = "created" if before is None else "configured" if _differ(before, after) else "unchanged"
            screen.say(f"{kind.shown(manifest.name)} {what}{' (server dry run)' if options.dry_run else ''}")
    if not options.output.is_table and done:
        print_objects(screen, options.output, done, is_single=len(done) == 1)
    return code


def placed(kind: KnownKind, manifest: Manifest, said: str, usual: str) -> Object:
    """An object with its namespace. Raises `click.ClickException` if the command line says another one."""
    obj = manifest.object
    own = obj["metadata"].get("namespace") or ""
    if not kind.name.namespaced:
        return obj
    if own and said and own != said:
        raise click.ClickException(f"the object is for namespace {own}, and --namespace says {said}: leave out one")
    return {**obj, "metadata": {**obj["metadata"], "namespace": own or said or usual}}


class _Served:
    """The kinds of the cluster, read again when one is missing: what is applied may define it."""

    def __init__(self, client: Client, kinds: Kinds) -> None:
        self._client = client
        self._kinds = kinds
        self._defined: set[tuple[str, str]] = set()

    async def of(self, manifest: Manifest) -> KnownKind:
        obj = manifest.object
        self._remember(obj)
        api_version, kind = obj["apiVersion"], obj["kind"]
        found = self._kinds.of_object(api_version, kind)
        tries = _KIND_WITHIN // _LOOK_EVERY if (api_version.rpartition("/")[0], kind) in self._defined else 1
        while found is None and tries > 0:
            self._kinds = await read_kinds(self._client)
            found = self._kinds.of_object(api_version, kind)
            tries -= 1
            if found is None and tries:
                await tasks.sleep(_LOOK_EVERY)
        if found is None:
            raise click.ClickException(
                f'the server has no kind "{kind}" in version "{api_version}": is the definition installed?'
            )
        return found

    def _remember(self, obj: Object) -> None:
        if obj["kind"] == "CustomResourceDefinition":
            spec = obj.get("spec") or {}
            self._defined.add((str(spec.get("group")), str((spec.get("names") or {}).get("kind"))))


async def _read(client: Client, kind: KnownKind, obj: Object) -> Object | None:
    try:
        return await client.get(kind.name, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    except NotFound:
        return None


async def _applied(client: Client, kind: KnownKind, obj: Object, options: ApplyOptions) -> Object:
    write = WriteOptions(dry_run=options.dry_run, field_validation="Strict")
    return await client.apply(kind.name, obj, manager=MANAGER, force=options.force_conflicts, write=write)


def _differ(before: Object, after: Object) -> bool:
    """Whether what is wanted of an object has changed. Its state may change at any moment, by others."""
    return _wanted(before) != _wanted(after)


def _wanted(obj: Object) -> dict[str, Any]:
    others = ("managedFields", "resourceVersion", "generation")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in others}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
