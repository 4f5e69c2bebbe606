"""`mainstay plan`: predict the effect of applying manifests. Changes nothing.

Also a kubectl plugin: `kubectl plan` runs it if `kubectl-plan` is on the PATH.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from mainstay.cli.cluster_access import MANAGER, Command, Screen
from mainstay.cli.explain_output import answer_option, exit_for, show_answer
from mainstay.cli.journal_access import JournalChoice, OpenJournal, explain, explain_options
from mainstay.cli.manifests import Manifest, manifest_options, place, read_manifests
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Output

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.cli.kinds import KnownKind
    from mainstay.explain.plan.admission import Proposal
    from mainstay.explain.plan.values import PlanAnswer

_WITHOUT_SERVER: Final = "Planned without a server: defaults and validation of this build, no admission."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    namespace: str = ""
    force_conflicts: bool = False
    output: Output = field(default_factory=Output)


@click.command(cls=Command)
@manifest_options
@namespace_option
@click.option("--force-conflicts", is_flag=True, help="Take over fields of other managers")
@answer_option("all nodes, steps, cures")
@explain_options
def plan(
    files: tuple[str, ...],
    recursive: bool,
    namespace: str,
    force_conflicts: bool,
    output: Output,
    source: JournalChoice,
) -> int:
    """Predict the effect of applying manifests.

    \b
        mainstay plan -f web.yaml
        mainstay plan -f manifests/ -o wide          every node, step and cure
        cat web.yaml | mainstay plan -f -
        mainstay plan -f web.yaml --at 10m           as if applied ten minutes ago
        mainstay plan -f web.yaml --bundle incident.bundle

    Changes nothing. The server validates each object in a dry run. Then the controllers and the scheduler decide in
    memory, on a copy of the cluster with these objects: which pods they would create, where each would run, which would
    wait and why, what they would delete, and what quotas allow. The plan takes over fields of other managers, as
    `kubectl apply` does (`mainstay apply` needs --force-conflicts for that), and notes whose they are. It names what it
    does not model.

    \b
    Exit codes:
        0  everything would run        3  something would wait, and may start by itself
        1  error                       4  incomplete
        2  something would be rejected, or wait until a user acts
    """
    if not files:
        raise click.UsageError("missing option -f (for example -f web.yaml, -f manifests/ or -f -)")
    manifests = read_manifests(files, recursive=recursive)
    options = PlanOptions(namespace=namespace, force_conflicts=force_conflicts, output=output)
    return explain(source, lambda opened, screen: show_plan(opened, screen, manifests, options))


async def show_plan(opened: OpenJournal, screen: Screen, manifests: Sequence[Manifest], options: PlanOptions) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.explain.plan.text import render_plan

    found = await build_plan(opened, manifests, options)
    show_answer(screen, found, options.output, lambda is_wide: render_plan(found, wide=is_wide).splitlines())
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return exit_for(found.verdict)


async def build_plan(opened: OpenJournal, manifests: Sequence[Manifest], options: PlanOptions) -> "PlanAnswer":
    from mainstay.explain.plan.admission import admitted_by_server, admitted_here
    from mainstay.explain.plan.planner import planned
    from mainstay.registry import REGISTRY

    moment = await opened.moment()
    client = opened.client if not opened.at else None
    proposals: list[Proposal] = []
    for manifest in manifests:
        kind = opened.kinds.find_for(manifest.object["apiVersion"], manifest.object["kind"])
        if kind is None:
            raise click.ClickException(f"{manifest.where}: {manifest.unknown_kind}")
        obj = _place(kind, manifest, options.namespace, opened.namespace)
        where, force = manifest.where, options.force_conflicts
        if client is None:
            proposal = await admitted_here(moment, kind.name, obj, where, manager=MANAGER, force=force)
        else:
            proposal = await admitted_by_server(
                client, moment, kind.name, obj, where, manager=MANAGER, force=force, planned=proposals
            )
        proposals.append(proposal)
    notes = () if client is not None else (_WITHOUT_SERVER,)
    return await planned(moment, REGISTRY, proposals, notes)


def _place(kind: "KnownKind", manifest: Manifest, given: str, default: str) -> "Object":
    try:
        return place(kind, manifest, given, default)
    except click.ClickException as error:
        raise click.ClickException(f"{manifest.where}: {error.format_message()}") from None
