"""`--data-dir` of `up`, `down` and `status`, with the same default for all of them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

C = TypeVar("C", bound=Callable[..., Any])


def default_data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    from mainstay.env import machine

    return machine.state_dir(environ) / "cluster"


def data_dir_option(about: str) -> Callable[[C], C]:
    # Resolved: processes carry the directory as a mark, so it must have one spelling only.
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
        default=default_data_dir,
        metavar="DIR",
        help=f"{about}  [default: ~/.local/state/mainstay/cluster]",
    )
