"""Where the files of pods are: in the directory of the agent, as `pods`.

Without mounts, containers go to their volumes as any user of the machine does. Where the way to the directory of the
agent is closed to others, as in the home of root, `pods` is a link to a directory of its own in `OPEN`.
"""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

OPEN: Final = Path("/var/lib/mainstay/pods")
_PASSED_BY_ALL: Final = 0o111


def find_pods(directory: Path) -> Path:
    pods = directory / "pods"
    return pods.readlink() if pods.is_symlink() else pods


def find_closed(path: Path) -> list[Path]:
    """The directories on the way to this one, and itself, that other users cannot go through."""
    path = path.resolve()
    return [each for each in (*reversed(path.parents), path) if not each.stat().st_mode & 0o001]


def open_pods(directory: Path, place: Path = OPEN) -> Path:
    """See that all users can go to the pods of an agent, of which there may be none yet, and return where they are.
    Those that are there already stay where they are. Raises `OSError`."""
    pods = directory / "pods"
    if not pods.is_symlink():
        if not find_closed(directory) or any(pods.iterdir()):
            return pods
        moved = place / hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:12]
        moved.mkdir(parents=True, exist_ok=True)
        pods.rmdir()
        pods.symlink_to(moved)
    found = find_pods(directory)
    for each in (found.parent.parent, found.parent, found):
        each.chmod(stat.S_IMODE(each.stat().st_mode) | _PASSED_BY_ALL)
    return found
