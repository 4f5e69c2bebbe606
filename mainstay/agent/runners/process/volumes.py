"""Volumes of pods, on disk.

What comes from the API – ConfigMaps, Secrets, facts about the pod – is laid out as the kubelet does it, so that
programs that watch such files work, and never see half of a change:

    VOLUME/..data -> ..7      swapped at once, when the next one is complete
          /..7/key
          /key -> ..data/key

A volume that already holds what it should is not touched. All of this blocks.
"""

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from mainstay.agent.runner import CannotRun, VolumeFile, VolumePlan

_FAILED: Final = "FailedMount"
_DATA: Final = "..data"
_MEMORY: Final = Path("/dev/shm")


def place_volume(pod: Path, plan: VolumePlan) -> str:
    """Make a volume of a pod, or bring it up to date. Returns where it is. Raises `CannotRun`."""
    try:
        if plan.host_path:
            return _host_path(plan)
        directory = pod / "volumes" / plan.name
        if plan.files is None:
            if plan.is_in_memory and os.access(_MEMORY, os.W_OK):
                directory = _in_memory(pod) / plan.name
            return _empty_directory(directory, plan.group)
        _write_files(directory, plan.files, plan.group)
        return str(directory)
    except OSError as error:
        raise CannotRun(_FAILED, f'volume "{plan.name}": {error}') from error


def forget_volumes(pod: Path) -> None:
    """Remove what is not in the pod's own directory."""
    shutil.rmtree(_in_memory(pod), ignore_errors=True)


def _in_memory(pod: Path) -> Path:
    owner = hashlib.sha256(os.fsencode(pod.resolve())).hexdigest()[:12]
    return _MEMORY / f"mainstay-{owner}-{pod.name}"


def make_source(pod: Path, source: str) -> None:
    """A part of a volume (`subPath`) that is mounted and does not exist: make it, as the kubelet does, with the
    owners and the mode of the volume. Nothing for what is of the machine itself. Raises `CannotRun`."""
    path = Path(source)
    volume = next((v for v in (pod / "volumes", _in_memory(pod)) if path.is_relative_to(v) and path != v), None)
    if volume is None:
        return
    volume /= path.relative_to(volume).parts[0]
    # A container may have put a link there that leads out, to where only we may go.
    if not path.resolve().is_relative_to(volume.resolve()):
        raise CannotRun("CreateContainerConfigError", f"{source} is outside its volume")
    if path.exists():
        return
    if (volume / _DATA).is_symlink():
        raise CannotRun("CreateContainerConfigError", f'volume "{volume.name}" has no {path.relative_to(volume)}')
    try:
        like = volume.stat()
        for part in reversed([path, *path.parents]):
            if not part.exists() and part.is_relative_to(volume):
                part.mkdir()
                part.chmod(stat.S_IMODE(like.st_mode))
                _give(part, like.st_gid)
    except OSError as error:
        raise CannotRun("CreateContainerConfigError", f"cannot create {source}: {error}") from error


def _give(path: Path, group: int | None) -> None:
    if group is not None:
        with contextlib.suppress(PermissionError):  # Only root may, and members of the group.
            os.chown(path, -1, group)


def _empty_directory(directory: Path, group: int | None) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(PermissionError):
        directory.parent.chmod(0o711)
    _give(directory, group)
    with contextlib.suppress(PermissionError):
        # For whatever user the containers have; and what is made in it belongs to the group, too.
        directory.chmod(0o777 if group is None else 0o2777)
    return str(directory)


_KINDS: Final = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def _host_path(plan: VolumePlan) -> str:
    path = Path(plan.host_path)
    if plan.host_path_type == "DirectoryOrCreate" and not path.exists():
        path.mkdir(parents=True)
        path.chmod(0o755)
    elif plan.host_path_type == "FileOrCreate" and not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        path.chmod(0o644)
    if plan.host_path_type:
        if plan.host_path_type not in _KINDS:
            raise CannotRun(_FAILED, f'volume "{plan.name}": unknown hostPath type {plan.host_path_type}')
        is_so, what = _KINDS[plan.host_path_type]
        try:
            found = is_so(path.stat().st_mode)
        except FileNotFoundError:
            found = False
        if not found:
            raise CannotRun(_FAILED, f'volume "{plan.name}": hostPath type check failed: {path} is not {what}')
    return str(path)


def _write_files(directory: Path, files: Sequence[VolumeFile], group: int | None) -> None:
    for file in files:
        parts = PurePosixPath(file.path).parts
        if not parts or file.path.startswith("/") or ".." in parts or parts[0].startswith(".."):
            raise CannotRun(_FAILED, f'volume "{directory.name}": invalid file name {file.path!r}')
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    data = directory / _DATA
    before = data.readlink().name if data.is_symlink() else ""
    if not before or not _holds(directory / before, files, group):
        number = int(before.removeprefix("..") or "0") + 1 if before else 1
        after = directory / f"..{number}"
        shutil.rmtree(after, ignore_errors=True)
        _fill(after, files, group)
        draft = directory / "..data_new"
        draft.unlink(missing_ok=True)
        draft.symlink_to(after.name)
        draft.rename(data)
    _link(directory, sorted({PurePosixPath(file.path).parts[0] for file in files}))
    for stale in directory.glob("..[0-9]*"):
        if stale.name != data.readlink().name:
            shutil.rmtree(stale, ignore_errors=True)


def _holds(directory: Path, files: Sequence[VolumeFile], group: int | None) -> bool:
    found = {str(path.relative_to(directory)): path for path in directory.rglob("*") if not path.is_dir()}
    if found.keys() != {file.path for file in files}:
        return False
    more = 0 if group is None else 0o440
    return all(
        stat.S_IMODE(found[file.path].stat().st_mode) == file.mode | more and found[file.path].read_bytes() == file.data
        for file in files
    )


def _fill(directory: Path, files: Sequence[VolumeFile], group: int | None) -> None:
    _make(directory)
    for file in files:
        path = directory / file.path
        for parent in reversed(path.relative_to(directory).parents[:-1]):
            _make(directory / parent)
        path.write_bytes(file.data)
        _give(path, group)
        # As the kubelet: what belongs to a group, the group can read.
        path.chmod(file.mode if group is None else file.mode | 0o440)


def _make(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)


def _link(directory: Path, names: Sequence[str]) -> None:
    """Let each name be found directly in the volume. Those of files that are gone now lead nowhere, and go."""
    for name in names:
        link = directory / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
    for entry in directory.iterdir():
        if entry.is_symlink() and not entry.name.startswith("..") and entry.name not in names:
            entry.unlink()
