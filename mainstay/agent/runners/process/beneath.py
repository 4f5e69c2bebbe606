"""Files below directories that a container can write to, without ever leaving them.

A container puts links wherever it may write, and swaps a directory for a link while we look. So nothing here uses a
path twice: a directory is held by descriptor, and the kernel resolves what is below it, refusing every way out
(`openat2` with RESOLVE_BENEATH; where the kernel has no such call, one name at a time with O_NOFOLLOW). Only regular
files are read, and only so many bytes of them. Removing goes neither through links nor into other file systems.

Every function raises `OSError` for what it refuses: ELOOP and EXDEV for a way out, EINVAL for what is no regular file.
"""

from __future__ import annotations

import errno
import os
import stat

from mainstay.agent.runners.process import kernel

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINKS_MAX = 40
_MOVES_MAX = 1000
_DEPTH_MAX = 100  # Each level of a tree that is removed holds a descriptor.


def open_directory(path: str) -> int:
    """A directory whose last name is no link. For paths whose other names only the agent can write."""
    return os.open(path, _DIRECTORY)


def open_beneath(directory: int, path: str, flags: int = os.O_PATH, *, has_links: bool = False) -> int:
    """Open what is at a relative path. With `has_links` it may go through links that stay inside the directory."""
    try:
        return kernel.open_beneath(directory, path, flags | os.O_CLOEXEC, has_links=has_links)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return walk_beneath(directory, path, flags, has_links=has_links)


def walk_beneath(directory: int, path: str, flags: int = os.O_PATH, *, has_links: bool = False) -> int:
    """`open_beneath` for kernels before 5.6."""
    names, links = [name for name in path.split("/") if name not in ("", ".")], 0
    at = os.dup(directory)
    try:
        while names:
            name = names.pop(0)
            if name == ".." or path.startswith("/"):
                raise OSError(errno.EXDEV, "path leads out of its directory", path)
            found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            if stat.S_ISLNK(os.fstat(found).st_mode):
                os.close(found)
                target, links = os.readlink(name, dir_fd=at), links + 1
                if not has_links or links > _LINKS_MAX or target.startswith("/"):
                    raise OSError(errno.ELOOP, "path goes through a link", path)
                names = [*(each for each in target.split("/") if each not in ("", ".")), *names]
                continue
            os.close(at)
            at = found
        if not flags & os.O_PATH:
            # By its descriptor: the name may stand for something else by now.
            opened = os.open(f"/proc/self/fd/{at}", (flags & ~os.O_NOFOLLOW) | os.O_CLOEXEC)
            os.close(at)
            return opened
    except BaseException:
        os.close(at)
        raise
    return at


def make_directories(directory: int, path: str, *, mode: int = 0o755, owner: tuple[int, int] = (-1, -1)) -> int:
    """Open a directory below another one, making the names that are missing. No name may be a link."""
    at = os.dup(directory)
    try:
        for name in path.split("/"):
            if name in ("", "."):
                continue
            is_new = False
            try:
                os.mkdir(name, 0o700, dir_fd=at)
                is_new = True
            except FileExistsError:
                pass
            found = open_beneath(at, name, _DIRECTORY)
            os.close(at)
            at = found
            if is_new:
                if owner != (-1, -1):
                    os.fchown(at, *owner)
                os.fchmod(at, mode)
    except BaseException:
        os.close(at)
        raise
    return at


def open_regular(path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a file whose last name is neither a link nor anything but a regular file."""
    # Not blocking: opening a FIFO would wait for its other end.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def read_tail(descriptor: int, bytes_max: int) -> bytes:
    """The last bytes of a file that is held open, however large it has become."""
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, bytes_max, max(0, size - bytes_max))


def remove_tree(path: str) -> bool:
    """Remove a directory with all that is in it. False if something is left: what is mounted there, for example.

    Links are removed, not followed. However deep a container has nested its directories, few of them are open at once:
    what is too deep is moved up first.
    """
    parent, name = os.path.split(os.path.abspath(path))
    try:
        above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        if not _unlink(above, name):
            top = os.open(name, _DIRECTORY, dir_fd=above)
            try:
                while _empty(top, top, os.fstat(top).st_dev, 0):
                    pass  # Something was moved up.
            finally:
                os.close(top)
            os.rmdir(name, dir_fd=above)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(above)
    return True


def _empty(directory: int, top: int, device: int, depth: int) -> int:
    """Remove what is in a directory. Returns how much of it was moved up instead."""
    _open_up(directory)
    moved = 0
    for name in os.listdir(directory):
        if _unlink(directory, name):
            continue
        try:
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        except OSError:
            continue
        try:
            if os.fstat(inner).st_dev != device:
                continue  # Another file system, with which the pod has nothing to do.
            if depth >= _DEPTH_MAX:
                moved += _move_up(directory, name, top)
                continue
            _open_up(inner)
            readable = os.open(f"/proc/self/fd/{inner}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                moved += _empty(readable, top, device, depth + 1)
            finally:
                os.close(readable)
            os.rmdir(name, dir_fd=directory)
        except OSError:
            continue
        finally:
            os.close(inner)
    return moved


def _unlink(directory: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError:  # A directory.
        return False
    return True


def _open_up(directory: int) -> bool:
    """A directory of our own may be closed to ourselves. Root does not mind."""
    try:
        os.chmod(f"/proc/self/fd/{directory}", 0o700)
    except OSError:
        return False
    return True


def _move_up(directory: int, name: str, top: int) -> bool:
    for number in range(_MOVES_MAX):
        try:
            os.rename(name, f".moved-{number}", src_dir_fd=directory, dst_dir_fd=top)
        except OSError:
            continue
        return True
    return False
