"""Where commands keep what they are not told another place for."""

from collections.abc import Mapping
from pathlib import Path


def state_dir(environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_STATE_HOME")
    return Path(given) / "mainstay" if given else Path(environ.get("HOME", ".")) / ".local" / "state" / "mainstay"
