"""`mainstay apply`: apply manifests.

Server-side apply: the server merges, and records which fields are ours (field manager `mainstay`). The next apply
removes fields of ours that are no longer in the manifest. Fields of other managers stay, or cause a conflict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from mainstay.cli.cluster_access import (
    MANAGER,
    Command,
    Screen,
    call_cluster,
    cluster_options,
    describe_error,
    load_config,
)
from mainstay.cli.exits import Exit
from mainstay.cli.kinds import Kinds, KnownKind, read_kinds
from mainstay.cli.manifests import Manifest, manifest_options, place, read_manifests
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output, OutputFormat, OutputType, complete, print_objects

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.client.client import Client

_KIND_WITHIN: Final = timedelta(seconds=10)
"""How long the server may take to serve a kind that was just defined."""
_LOOK_EVERY: Final = timedelta(milliseconds=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    namespace: str = ""
    """From the command line. Empty: the object's own, else that of the kubeconfig."""
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
    help="server: validate, but change nothing",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields of other managers")
@click.option(
    "-o",
    "--output",
    type=OutputType(OutputFormat.NAME, OutputFormat.JSON, OutputFormat.YAML),
    default=Output(),
    metavar="FORMAT",
    help="name, json, yaml  [default: a line per object]",
)
@click.option("--server-side", is_flag=True, hidden=True, help="Accepted for kubectl; always on")
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
    """Apply manifests.

    \b
        mainstay apply -f web.yaml
        mainstay apply -f manifests/ --dry-run=server
        cat web.yaml | mainstay apply -f -

    The apply is server-side, as field manager "mainstay". FILE is YAML or JSON; - is standard input.
    """
    if not files:
        raise click.UsageError("missing option -f (for example -f web.yaml, -f manifests/ or -f -)")
    config = load_config(kubeconfig, context)
    manifests = read_manifests(files, recursive=recursive)
    options = ApplyOptions(
        namespace=namespace,
        dry_run=dry_run == "server",
        force_conflicts=force_conflicts,
        output=output,
    )
    return call_cluster(config, lambda client, screen: apply_all(client, screen, manifests, options))


async def apply_all(client: "Client", screen: Screen, manifests: Sequence[Manifest], options: ApplyOptions) -> int:
    """Apply one after the other. An object that the server rejects does not stop the others."""
    from mainstay.client.errors import ApiError, Unavailable

    kinds = _ServedKinds(client, await read_kinds(client))
    done: list[tuple[KnownKind, Object]] = []
    code: int = Exit.SATISFIED
    for manifest in manifests:
        try:
            kind = await kinds.find(manifest)
            obj = place(kind, manifest, options.namespace, client.config.namespace)
            before = await _read(client, kind, obj)
            after = await _apply(client, kind, obj, options)
        except Unavailable as error:
            if error.status == 0:
                raise  # The next object would fail in the same way.
            screen.note(f"mainstay: {manifest.where}: {error}")
            code = Exit.ERROR
            continue
        except (ApiError, click.ClickException) as error:
            words = describe_error(error, client.config) if isinstance(error, ApiError) else error.format_message()
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


class _ServedKinds:
    """The kinds of the cluster, read again if one is missing: an applied manifest may define it."""

    def __init__(self, client: "Client", kinds: Kinds) -> None:
        self._client = client
        self._kinds = kinds
        self._defined: set[tuple[str, str]] = set()

    async def find(self, manifest: Manifest) -> KnownKind:
        from mainstay.env import tasks

        obj = manifest.object
        self._remember(obj)
        api_version, kind = obj["apiVersion"], obj["kind"]
        found = self._kinds.find_for(api_version, kind)
        tries = _KIND_WITHIN // _LOOK_EVERY if (api_version.rpartition("/")[0], kind) in self._defined else 1
        while found is None and tries > 0:
            self._kinds = await read_kinds(self._client)
            found = self._kinds.find_for(api_version, kind)
            tries -= 1
            if found is None and tries:
                await tasks.sleep(_LOOK_EVERY)
        if found is None:
            raise click.ClickException(manifest.unknown_kind)
        return found

    def _remember(self, obj: "Object") -> None:
        if obj["kind"] == "CustomResourceDefinition":
            spec = obj.get("spec") or {}
            self._defined.add((str(spec.get("group")), str((spec.get("names") or {}).get("kind"))))


async def _read(client: "Client", kind: KnownKind, obj: "Object") -> "Object | None":
    from mainstay.client.errors import NotFound

    try:
        return await client.get(kind.name, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
    except NotFound:
        return None


async def _apply(client: "Client", kind: KnownKind, obj: "Object", options: ApplyOptions) -> "Object":
    from mainstay.client.call import WriteOptions

    write = WriteOptions(dry_run=options.dry_run, field_validation="Strict")
    return await client.apply(kind.name, obj, manager=MANAGER, force=options.force_conflicts, write=write)


def _differ(before: "Object", after: "Object") -> bool:
    """Whether the desired state has changed. Others may change the status at any moment."""
    return _desired(before) != _desired(after)


def _desired(obj: "Object") -> dict[str, Any]:
    others = ("managedFields", "resourceVersion", "generation")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in others}
    return {**{name: value for name, value in obj.items() if name != "status"}, "metadata": metadata}
