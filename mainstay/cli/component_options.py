"""The options that `scheduler` and `controllers` share, and those that all components have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mainstay.api.feature_gates import BadGates, FeatureGates, parse_gates
from mainstay.cli.address import AddressParam

C = TypeVar("C", bound=Callable[..., Any])


class GatesParam(click.ParamType[FeatureGates]):
    """`NAME=true,NAME=false`, of the gates that there are."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FeatureGates:
        try:
            return value if isinstance(value, FeatureGates) else parse_gates(value)
        except BadGates as error:
            self.fail(str(error), param, ctx)


def log_options(command: C) -> C:
    """`--log-format` and `-v`."""
    command = click.option("-v", "--verbose", count=True, help="Log more; -vv for debugging")(command)
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of the log on standard error",
    )(command)


def component_options(name: str) -> Callable[[C], C]:
    """The options of every component. The command receives them as keywords and passes them to `run_component`."""
    options = [
        click.option(
            "--kubeconfig",
            default="",
            metavar="FILE",
            help="Cluster to use  [default: $KUBECONFIG, else service account, else ~/.kube/config]",
        ),
        click.option(
            "--metrics", type=AddressParam(), metavar="HOST:PORT", help="Serve /metrics, /healthz and /readyz (HTTP)"
        ),
        click.option(
            "--data-dir",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Decisions of servers without a journal  [default: ~/.local/state/mainstay/INSTANCE]",
        ),
        click.option(
            "--instance", default="", metavar="NAME", help=f"Name of this process  [default: {name}.HOSTNAME]"
        ),
        click.option(
            "--journal/--no-journal", default=True, show_default=True, help="Record decisions in the server's journal"
        ),
        click.option(
            "--feature-gates",
            "gates",
            type=GatesParam(),
            default="",
            metavar="NAME=BOOL,…",
            help="Turn features on or off",
        ),
        log_options,
    ]

    def add(command: C) -> C:
        for option in reversed(options):
            command = option(command)
        return command

    return add
