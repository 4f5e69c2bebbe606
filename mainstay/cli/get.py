"""`mainstay get`: show objects, as a table or in full.

A small `kubectl get` for machines without one. The server makes the tables, so that every kind has its own columns;
`-o` chooses another form (output.py). With `-w` it prints each change until Ctrl-C. With `--at`, `--journal` or
`--bundle` it reads the journal instead of the server (history_printer.py).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from mainstay.cli.cluster_access import Command, Screen, call_cluster, load_config
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import JournalChoice, OpenJournal, explain, explain_options
from mainstay.cli.kinds import KindSelection, read_kinds
from mainstay.cli.object_selection import (
    NAME_EVERYWHERE,
    GetOptions,
    ObjectSelection,
    complete_objects,
    everywhere_option,
    make_selection,
    namespace_option,
    selector_options,
)
from mainstay.cli.output import Output, OutputFormat, OutputType

if TYPE_CHECKING:
    from mainstay.client.client import Client


@click.command(cls=Command)
@click.argument("words", nargs=-1, metavar="TYPE[/NAME] [NAME]…", shell_complete=complete_objects)
@namespace_option
@everywhere_option
@selector_options
@click.option(
    "-o",
    "--output",
    type=OutputType(OutputFormat.WIDE, OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME, OutputFormat.JSONPATH),
    default=Output(),
    metavar="FORMAT",
    help="wide, json, yaml, name, jsonpath=TEMPLATE  [default: table]",
)
@click.option("-w", "--watch", is_flag=True, help="Print changes until Ctrl-C")
@click.option("--watch-only", is_flag=True, help="Print only changes")
@click.option("--no-headers", is_flag=True, help="Omit the table headers")
@click.option("--show-labels", is_flag=True, help="Show labels as the last column")
@click.option("-L", "--label-columns", multiple=True, metavar="LABEL", help="Show a label as a column; repeatable")
@click.option("--ignore-not-found", is_flag=True, help="Ignore objects that do not exist")
@click.option("--show-managed-fields", is_flag=True, help="Keep managedFields in json and yaml")
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
    source: JournalChoice,
) -> int:
    """Show objects, now or at an earlier time.

    \b
        mainstay get pods                   mainstay get nodes -o wide
        mainstay get pod/web deploy/web     mainstay get deploy,svc -l app=web
        mainstay get pods -A -w             mainstay get pod web -o yaml
        mainstay get pods --at 10m          mainstay get deploy web --at 4711 -o yaml

    --at, --journal and --bundle read the journal, also of a server that does not run.
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
    config = load_config(source.kubeconfig, source.context)
    options = replace(options, selection=make_selection(config, namespace, everywhere, selector, field_selector))
    return call_cluster(
        config, lambda client, screen: get_objects(client, screen, words, options), is_endless=options.watch
    )


async def get_objects(client: "Client", screen: Screen, words: Sequence[str], options: GetOptions) -> int:
    """Do what the command does. Raises `ApiError`, `click.ClickException`."""
    from mainstay.cli.object_printer import ObjectPrinter, TablePrinter

    selected = (await read_kinds(client)).select(words)
    _check_options(selected, options)
    printer = (TablePrinter if options.output.is_table else ObjectPrinter)(client, screen, options)
    code = await printer.show(selected)
    if options.watch and code == Exit.SATISFIED:
        return await printer.follow(selected[0])
    return code


async def get_objects_at(
    opened: OpenJournal,
    screen: Screen,
    words: Sequence[str],
    options: GetOptions,
    namespace: str = "",
    everywhere: bool = False,
    selector: str = "",
    field_selector: str = "",
) -> int:
    """Do the same at an earlier time. Raises `click.ClickException`, `ApiError`, `JournalError`."""
    from mainstay.cli.history_printer import BadSelector, PastObjectPrinter, PastTablePrinter

    if options.watch:
        raise click.UsageError("-w and --at exclude each other: the past does not change")
    where = "" if everywhere else namespace or opened.namespace
    options = replace(options, selection=ObjectSelection(namespace=where, labels=selector, fields=field_selector))
    selected = opened.kinds.select(words)
    _check_options(selected, options)
    moment = await opened.moment()
    printer = (PastTablePrinter if options.output.is_table else PastObjectPrinter)(moment, screen, options)
    try:
        code = await printer.show(selected)
    except BadSelector as error:
        raise click.UsageError(str(error)) from None
    for gap in moment.gaps:
        screen.note(f"mainstay: {gap}")
    for note in opened.notes:
        screen.note(f"mainstay: {note}")
    return Exit.INCOMPLETE if moment.gaps and code == Exit.SATISFIED else code


def _check_options(selected: Sequence[KindSelection], options: GetOptions) -> None:
    has_names = any(each.names for each in selected)
    selection = options.selection
    if has_names and selection.is_everywhere and any(each.kind.name.namespaced for each in selected):
        raise click.UsageError(NAME_EVERYWHERE)
    if has_names and (selection.labels or selection.fields):
        raise click.UsageError("a name and a selector exclude each other: remove one")
    if options.watch and (len(selected) > 1 or len(selected[0].names) > 1):
        raise click.UsageError("-w watches one type or one object: remove the others")
