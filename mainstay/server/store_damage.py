"""The words with which a server refuses a damaged store, and what to do about it."""

from pathlib import Path
from typing import Final

from mainstay.env.disk import exists
from mainstay.store.errors import Corrupt

STORE: Final = "store"
SALVAGING: Final = "store.salvaging"
"""Where a salvage builds the store that will take the place of the damaged one (data_dir_check.py)."""


def require_salvaged(data_dir: Path) -> None:
    """Raise `Corrupt` if a salvage has moved the store away, and did not get to put another one there."""
    if exists(data_dir / SALVAGING) and not exists(data_dir / STORE):
        raise Corrupt(f"a salvage was interrupted: rename {data_dir / SALVAGING} to {data_dir / STORE} to finish it")


def render_cure(data_dir: Path) -> str:
    return (
        f"See what is damaged: mainstay store verify --data-dir {data_dir}. Then restore a backup: mainstay restore"
        f" FILE --data-dir {data_dir} --replace; or keep what is whole and lose the rest: mainstay store salvage"
        f" --data-dir {data_dir} --accept-loss"
    )


def render_refusal(data_dir: Path, problem: str) -> str:
    return f"the store is damaged: {problem}. Nothing was changed. {render_cure(data_dir)}"
