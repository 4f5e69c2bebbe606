"""`mainstay plan`: what would happen if files were applied. Nothing is changed.

Also `kubectl plan`, if `kubectl-plan` is on the path: kubectl takes it for its own.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from mainstay.api.kind import Object
from mainstay.cli.apply import placed
from mainstay.cli.cluster_access import MANAGER, Command, Screen
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import Opened, Source, explain, explain_options
from mainstay.cli.kinds import KnownKind
from mainstay.cli.manifests import Manifest, manifest_options, read_manifests
from mainstay.cli.object_selection import namespace_option
from mainstay.cli.output import Form, Output, OutputType
from mainstay.cli.yaml_text import yaml_text
from mainstay.explain.plan.admission import Proposal, admitted_by_server, admitted_here
from mainstay.explain.plan.planner import planned
from mainstay.explain.plan.text import text_of
from mainstay.explain.plan.values import Plan
from mainstay.explain.why.answer import Verdict

_EXITS = {
    Verdict.SATISFIED: Exit.SATISFIED,
    Verdict.WAITING: Exit.WAITING,
    Verdict.BLOCKED: Exit.BLOCKED,
    Verdict.INCOMPLETE: Exit.INCOMPLETE,
}
_NOT_ASKED = "No server was asked: defaults and checks are those of this build, and admission was not tried."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    namespace: str = ""
    force_conflicts: bool = False
    output: Output = field(default_factory=Output)


@click.command(cls=Command)
@manifest_options
@namespace_option
@click.option("--force-conflicts", is_flag=True, help="Take over fields that others own; no note says whose.")
@click.option(
    "-o",
    "--output",
    type=OutputType(Form.WIDE, Form.JSON, Form.YAML),
    default=Output(),
    metavar="FORM",
    help="wide: all nodes, steps and cures; json, yaml: the plan in full.",
)
@explain_options
def plan(
    files: tuple[str, ...], recursive: bool, namespace: str, force_conflicts: bool, output: Output, source: Source
) -> int:
    """Say what would happen if files were applied, and change nothing.

    \b
        mainstay plan -f web.yaml
        mainstay plan -f manifests/ -o wide          every node, step and cure
        cat web.yaml | mainstay plan -f -
        mainstay plan -f web.yaml --at 10m           as if it had been applied ten minutes ago
        mainstay plan -f web.yaml --bundle incident.bundle

    The server is asked whether it would take each object (a dry run). Fields that others own are planned as taken over,
    which `kubectl apply` does and `mainstay apply` only with --force-conflicts; a note says whose. Then the controllers
    and the scheduler decide, in memory, on the cluster as it is with these objects in it: which pods would be made,
    where each would go, who would wait and why, what would be removed, and what quotas would say. What is not modelled
    is said.

    \b
    Exit code:
        0  all of it would run              3  some of it would wait for what may come by itself
        1  there was an error               4  the answer is incomplete
        2  something would be refused, or wait until somebody changes something
    """
    if not files:
        raise click.UsageError("say what to plan: -f FILE, -f DIR or -f -.")
    manifests = read_manifests(files, recursive=recursive)
    options = PlanOptions(namespace=namespace, force_conflicts=force_conflicts, output=output)
    return explain(source, lambda opened, screen: show_plan(opened, screen, manifests, options))


async def show_plan(opened: Opened, screen: Screen, manifests: Sequence[Manifest], options: PlanOptions) -> int:
    """Do what the command does. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    found = await plan_for(opened, manifests, options)
    match options.output.form:
        case Form.JSON:
            screen.say(json.dumps(found.as_object(), indent=4, ensure_ascii=False))
        case Form.YAML:
            screen.say(yaml_text(found.as_object()).rstrip("\n"))
        case form:
            screen.say(text_of(found, wide=form is Form.WIDE))
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return _EXITS[found.verdict]


async def plan_for(opened: Opened, manifests: Sequence[Manifest], options: PlanOptions) -> Plan:
    moment = await opened.moment()
    client = opened.client if not opened.at else None
    proposals: list[Proposal] = []
    for manifest in manifests:
        kind = opened.kinds.of_object(manifest.object["apiVersion"], manifest.object["kind"])
        if kind is None:
            raise click.ClickException(
                f'{manifest.where}: the cluster has no kind "{manifest.object["kind"]}" in version '
                f'"{manifest.object["apiVersion"]}": is the definition installed?'
            )
        obj = _placed(kind, manifest, options.namespace, opened.namespace)
        where, force = manifest.where, options.force_conflicts
        if client is None:
            proposal = await admitted_here(moment, kind.name, obj, where, manager=MANAGER, force=force)
        else:
            proposal = await admitted_by_server(
                client, moment, kind.name, obj, where, manager=MANAGER, force=force, planned=proposals
            )
        proposals.append(proposal)
    notes = () if client is not None else (_NOT_ASKED,)
    return await planned(moment, proposals, notes)


def _placed(kind: KnownKind, manifest: Manifest, said: str, usual: str) -> Object:
    try:
        return placed(kind, manifest, said, usual)
    except click.ClickException as error:
        raise click.ClickException(f"{manifest.where}: {error.format_message()}") from None
