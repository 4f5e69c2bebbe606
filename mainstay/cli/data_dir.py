"""`--data-dir` of the commands about a cluster on this machine: all of them mean the same one if nothing is said."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mainstay.cli.cluster import default_data_dir

C = TypeVar("C", bound=Callable[..., Any])


def data_dir_option(about: str) -> Callable[[C], C]:
    # Resolved: processes carry the directory as a mark, and a directory has one name only then.
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, resolve_path=True, path_type=Path),
        default=default_data_dir,
        metavar="DIR",
        help=f"{about}  [default: ~/.local/state/mainstay/cluster]",
    )
