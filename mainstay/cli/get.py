"""`mainstay get`: what is in the cluster, as a table or in full.

A small `kubectl get` for machines without one. Tables are made by the server, so that every kind shows what is worth
showing of it; `-o` chooses another form (output.py). With `-w` it goes on with each change, until it is interrupted.
With `--at` it shows the state at another time, from the journal (history_printer.py); so it does with `--journal` and
`--bundle`, also without a server.
"""

from collections.abc import Sequence
from dataclasses import replace

import click

from mainstay.cli.cluster_access import Command, Screen, ask, config_for
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import Opened, Source, explain, explain_options
from mainstay.cli.kinds import Asked, read_kinds
from mainstay.cli.object_printer import GetOptions, Objects, Tables
from mainstay.cli.object_selection import (
    Selection,
    complete_objects,
    everywhere_option,
    namespace_option,
    selection_of,
    selector_options,
)
from mainstay.cli.output import Form, Output, OutputType
from mainstay.client.client import Client


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="TYPE[/NAME] [NAME]…", shell_complete=complete_objects)
@namespace_option
@everywhere_option
@selector_options
@click.option(
    "-o",
    "--output",
    type=OutputType(Form.WIDE, Form.JSON, Form.YAML, Form.NAME, Form.JSONPATH),
    default=Output(),
    metavar="FORM",
    help="wide, json, yaml, name or jsonpath=TEMPLATE.  [default: a table]",
)
@click.option("-w", "--watch", is_flag=True, help="Go on with each change.")
@click.option("--watch-only", is_flag=True, help="Only changes, without what is there at first.")
@click.option("--no-headers", is_flag=True, help="A table without titles.")
@click.option("--show-labels", is_flag=True, help="Show labels as the last column.")
@click.option("-L", "--label-columns", multiple=True, metavar="LABEL", help="Show a label as a column of its own.")
@click.option("--ignore-not-found", is_flag=True, help="Do not mind what is not there.")
@click.option("--show-managed-fields", is_flag=True, help="With -o json or yaml: show who manages which fields.")
@explain_options
def get(
    words: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    selector: str,
    field_selector: str,
    output: Output,
    watch: bool,
    watch_only: bool,
    no_headers: bool,
    show_labels: bool,
    label_columns: tuple[str, ...],
    ignore_not_found: bool,
    show_managed_fields: bool,
    source: Source,
) -> int:
    """Show objects: pods, nodes, deployments and whatever else there is.

    \b
        mainstay get pods                   mainstay get nodes -o wide
        mainstay get pod/web deploy/web     mainstay get deploy,svc -l app=web
        mainstay get pods -A -w             mainstay get pod web -o yaml
        mainstay get pods --at 10m          mainstay get deploy web --at 4711 -o yaml
    """
    options = GetOptions(
        output=output,
        watch=watch or watch_only,
        watch_only=watch_only,
        no_headers=no_headers,
        show_labels=show_labels,
        label_columns=tuple(part for each in label_columns for part in each.split(",")),
        ignore_not_found=ignore_not_found,
        show_managed_fields=show_managed_fields,
    )
    if source.at or source.bundle or source.journal:
        return explain(
            source,
            lambda opened, screen: get_objects_at(
                opened, screen, words, options, namespace, everywhere, selector, field_selector
            ),
        )
    config = config_for(source.kubeconfig, source.context)
    options = replace(options, selection=selection_of(config, namespace, everywhere, selector, field_selector))
    return ask(config, lambda client, screen: get_objects(client, screen, words, options), is_endless=options.watch)


async def get_objects(client: Client, screen: Screen, words: Sequence[str], options: GetOptions) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    asked = (await read_kinds(client)).asked(words)
    _require_sense(asked, options)
    showing = (Tables if options.output.is_table else Objects)(client, screen, options)
    code = await showing.show(asked)
    if options.watch and code == Exit.SATISFIED:
        return await showing.follow(asked[0])
    return code


async def get_objects_at(
    opened: Opened,
    screen: Screen,
    words: Sequence[str],
    options: GetOptions,
    namespace: str = "",
    everywhere: bool = False,
    selector: str = "",
    field_selector: str = "",
) -> int:
    """The same at another time, from the journal. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.cli.history_printer import BadSelector, ObjectsAt, TablesAt

    if options.watch:
        raise click.UsageError("what was cannot be watched: leave out -w, or --at.")
    where = "" if everywhere else namespace or opened.namespace
    options = replace(options, selection=Selection(namespace=where, labels=selector, fields=field_selector))
    asked = opened.kinds.asked(words)
    _require_sense(asked, options)
    moment = await opened.moment()
    showing = (TablesAt if options.output.is_table else ObjectsAt)(moment, screen, options)
    try:
        code = await showing.show(asked)
    except BadSelector as error:
        raise click.UsageError(str(error)) from None
    for gap in moment.gaps:
        screen.note(f"mainstay: {gap}")
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return Exit.INCOMPLETE if moment.gaps and code == Exit.SATISFIED else code


def _require_sense(asked: Sequence[Asked], options: GetOptions) -> None:
    has_names = any(each.names for each in asked)
    selection = options.selection
    if has_names and selection.is_everywhere and any(each.kind.name.namespaced for each in asked):
        raise click.UsageError("an object cannot be found by its name in all namespaces: leave out -A, or the name.")
    if has_names and (selection.labels or selection.fields):
        raise click.UsageError("a name and a selector do not go together: leave out one of them.")
    if options.watch and (len(asked) > 1 or len(asked[0].names) > 1):
        raise click.UsageError("only one type, or one object, can be watched: leave out the others, or -w.")
