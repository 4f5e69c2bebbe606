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
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from mainstay.agent.runner import CannotRun, VolumeFile, VolumePlan
from mainstay.agent.runners.process.beneath import make_directories, open_beneath, remove_tree
from mainstay.agent.runners.process.identities import DEFAULT, find_on_machine

_FAILED: Final = "FailedMount"
_REFUSED: Final = "CreateContainerConfigError"
_DATA: Final = "..data"
_MEMORY: Final = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class VolumeOwners:
    """To whom the volumes of a pod belong, if it has ids of its own: its first one."""

    block: int

    @property
    def files(self) -> tuple[int, int]:
        """Of files that come from the API: so that whatever mode they have, containers that name no user can read
        them, and so can those that are root in their namespace."""
        owner = find_on_machine(self.block, DEFAULT)
        return owner, owner

    def find_group(self, group: int | None) -> int | None:
        return None if group is None else find_on_machine(self.block, group)


def place_volume(pod: Path, plan: VolumePlan, owners: VolumeOwners | None = None) -> str:
    """Make a volume of a pod, or bring it up to date. Returns where it is. Raises `CannotRun`."""
    group = plan.group if owners is None else owners.find_group(plan.group)
    try:
        if plan.host_path:
            return _host_path(plan)
        directory = pod / "volumes" / plan.name
        if plan.files is None:
            if plan.is_in_memory and os.access(_MEMORY, os.W_OK):
                return _empty_directory(_make_in_memory(pod, owners) / plan.name, group)
            directory.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):
                directory.parent.chmod(0o711)
            return _empty_directory(directory, group)
        _write_files(directory, plan.files, group, (-1, -1) if owners is None else owners.files)
        return str(directory)
    except OSError as error:
        raise CannotRun(_FAILED, f'volume "{plan.name}": {error}') from error


def forget_volumes(pod: Path) -> None:
    """Remove what is not in the pod's own directory."""
    remove_tree(str(_in_memory(pod)))


def _make_in_memory(pod: Path, owners: VolumeOwners | None) -> Path:
    """In a directory that every user may write to: ours must be a directory, and our own. Others may not enter."""
    path = _in_memory(pod)
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise CannotRun(_FAILED, f"{path} belongs to another user, or is a link: remove it")
    if owners is not None:
        os.chown(path, -1, owners.files[1])
    path.chmod(0o711 if owners is None else 0o710)
    return path


def _in_memory(pod: Path) -> Path:
    owner = hashlib.sha256(os.fsencode(pod.resolve())).hexdigest()[:12]
    return _MEMORY / f"mainstay-{owner}-{pod.name}"


def make_source(source: str, below: str) -> None:
    """A part of a volume (`subPath`) that is mounted and does not exist: make it, as the kubelet does, with the
    owners and the mode of the volume. Raises `CannotRun`, also if it is not inside the volume: a container may have put
    a link there that leads out, to where only we may go."""
    if not below:
        return
    name = Path(source).name
    try:
        volume = os.open(source, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotRun(_REFUSED, f"cannot open {source}: {error.strerror}") from error
    try:
        os.close(open_beneath(volume, below, has_links=True))
    except FileNotFoundError:
        if (Path(source) / _DATA).is_symlink():
            raise CannotRun(_REFUSED, f'volume "{name}" has no {below}') from None
        like = os.stat(source)
        try:
            owner = (-1, like.st_gid) if os.geteuid() == 0 else (-1, -1)
            os.close(make_directories(volume, below, mode=stat.S_IMODE(like.st_mode), owner=owner))
        except OSError as error:
            raise CannotRun(_REFUSED, f'cannot create {below} in volume "{name}": {error.strerror}') from error
    except OSError as error:
        raise CannotRun(_REFUSED, f'{below} is outside volume "{name}": {error.strerror}') from error
    finally:
        os.close(volume)


def _give(path: Path, group: int | None) -> None:
    if group is not None:
        with contextlib.suppress(PermissionError):  # Only root may, and members of the group.
            os.chown(path, -1, group)


def _empty_directory(directory: Path, group: int | None) -> str:
    directory.mkdir(exist_ok=True)
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


def _write_files(
    directory: Path, files: Sequence[VolumeFile], group: int | None, owner: tuple[int, int] = (-1, -1)
) -> None:
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
        remove_tree(str(after))
        _fill(after, files, group, owner)
        draft = directory / "..data_new"
        draft.unlink(missing_ok=True)
        draft.symlink_to(after.name)
        draft.rename(data)
    _link(directory, sorted({PurePosixPath(file.path).parts[0] for file in files}))
    for stale in directory.glob("..[0-9]*"):
        if stale.name != data.readlink().name:
            remove_tree(str(stale))


def _holds(directory: Path, files: Sequence[VolumeFile], group: int | None) -> bool:
    found = {str(path.relative_to(directory)): path for path in directory.rglob("*") if not path.is_dir()}
    if found.keys() != {file.path for file in files}:
        return False
    more = 0 if group is None else 0o440
    return all(
        stat.S_IMODE(found[file.path].stat().st_mode) == file.mode | more and found[file.path].read_bytes() == file.data
        for file in files
    )


def _fill(directory: Path, files: Sequence[VolumeFile], group: int | None, owner: tuple[int, int]) -> None:
    _make(directory)
    for file in files:
        path = directory / file.path
        for parent in reversed(path.relative_to(directory).parents[:-1]):
            _make(directory / parent)
        path.write_bytes(file.data)
        if owner[0] >= 0:
            os.chown(path, *owner)
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
