"""The file system that a container sees: the machine's, read-only, without what is none of the container's business.

A new root in memory, into which the machine's directories are bound, read-only and without set-user-id programs and
devices. Missing from it, or there but empty:

- /root, /home and other homes, the directory of the agent with all other pods (`hidden`), /mnt, /media, /boot;
- /tmp, /var/tmp and /run, which are the container's own, on disk, and end with the attempt;
- /dev, but for the usual harmless devices; /dev/shm is the container's own;
- /proc, which shows the processes of the container's own namespace.

What the agent's interpreter needs is shown where it is (`shown`), also in a hidden home. Volumes are then mounted, each
at its path if that exists or can be made in what is in memory, otherwise at `$MAINSTAY_ROOT/PATH`, which always works.

Runs in the first process of the container's namespaces, as root there, before anything of the container runs. It
holds what it mounts by descriptor, and decides where each mount goes before the first volume is there: no link in a
volume has a say in it.
"""

from __future__ import annotations

import errno
import os
import stat

from mainstay.agent.runners.process import beneath, kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mainstay.agent.runners.process.orders import Orders

_PRIVATE = ("boot", "dev", "home", "lost+found", "media", "mnt", "proc", "root", "run", "sys", "tmp")
_DEVICES = ("full", "null", "ptmx", "random", "tty", "urandom", "zero")
_DEVICE_LINKS = (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2"))
_SHARED_MEMORY_BYTES = 64 * 1024 * 1024  # As container runtimes have it.
_SKELETON = "mode=755,size=1m"  # Directories and links only.
_PRIVILEGED = kernel.READ_ONLY  # Which it can undo. By mistake it should not change the machine.
_HOST = kernel.READ_ONLY | kernel.NO_SETUID | kernel.NO_DEVICES
_NAMES_OF_SERVERS = "/etc/resolv.conf"


def open_source(source: str, below: str) -> int:
    """What is mounted: a volume, or the part `below` of one, which is found inside of it or not at all."""
    # The names up to the volume are the agent's, or the machine's: the container cannot change them.
    held = os.open(source, os.O_PATH | os.O_CLOEXEC)
    if not below:
        return held
    try:
        return beneath.open_beneath(held, below, has_links=True)
    finally:
        os.close(held)


def build(orders: Orders) -> None:
    """In a mount namespace of one's own: make that root, and be in it. Raises `OSError`."""
    kernel.keep_mounts_to_oneself()
    sources = [
        (open_source(source, below), path, is_read_only)
        for source, below, path, is_read_only in sorted(orders["mounts"], key=lambda mount: mount[2])
    ]
    own = open_source(orders["root"], "")
    private = [(open_source(f"{orders['attempt']}/{name}", ""), path) for name, path in PRIVATE_DIRECTORIES]
    new = orders["attempt"]
    kernel.mount_memory(new, _SKELETON)
    _bind_machine(new, is_privileged=orders["is_privileged"])
    _make_devices(new, is_privileged=orders["is_privileged"])
    if orders["has_own_pids"]:
        kernel.mount_processes(f"{new}/proc")
    else:
        kernel.bind("/proc", f"{new}/proc")
    hidden = [path for path in orders["hidden"] if _hide(new, path)]
    shown = [(open_source(path, ""), path) for path in (*orders["shown"], *_find_resolver()) if os.path.exists(path)]
    kernel.pivot(new)
    private = [(held, path) for held, path in private if os.path.isdir(path) and not os.path.islink(path)]
    for held, path in private:
        _bind(held, path)
    for held, path in shown:
        if not os.path.lexists(path):
            _bind(held, path, attributes=_HOST)
            # It may be above something that is hidden: a cluster's directory beside the interpreter's.
            hidden += [each for each in orders["hidden"] if each.startswith(f"{path}/") and _hide("", each)]
    _bind(own, orders["root"])
    _mount_volumes(sources, orders["root"])
    if orders["is_read_only"]:
        for path in (orders["root"], *(path for _, path in private)):
            kernel.restrict(path, kernel.READ_ONLY)
    for path in (*hidden, *(() if orders["is_privileged"] else ("/dev",)), "/"):
        kernel.restrict(path, kernel.READ_ONLY)
    kernel.forget_old_root()
    _require_one_root()
    for descriptor in (own, *(held for held, _ in (*private, *shown)), *(held for held, _, _ in sources)):
        os.close(descriptor)


def _require_one_root() -> None:
    """A process that joins the namespace gets the topmost root: the machine's, if that were still there."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        roots = sum(line.split(" ", 5)[4] == "/" for line in file)
    if roots != 1:
        raise OSError(errno.EBUSY, f"the sandbox has {roots} roots instead of one")


def _find_resolver() -> list[str]:
    """The file with the names of name servers, where it is a link to one in /run."""
    path = os.path.realpath(_NAMES_OF_SERVERS)
    return [path] if path.startswith("/run/") else []


PRIVATE_DIRECTORIES = (("tmp", "/tmp"), ("tmp", "/var/tmp"), ("run", "/run"))
"""Directories of the attempt, and where the container has them."""


def make_private_directories(orders: Orders) -> None:
    """Make, in the directory of the attempt, what the container has at /tmp and at /run."""
    user, group = orders["owner"]
    for name, mode in (("tmp", 0o1777), ("run", 0o755)):
        path = f"{orders['attempt']}/{name}"
        os.makedirs(path, exist_ok=True)
        held = beneath.open_directory(path)
        try:
            os.fchmod(held, mode)
            if user >= 0:
                os.fchown(held, user, group)
        finally:
            os.close(held)


def _bind_machine(new: str, *, is_privileged: bool) -> None:
    for name in sorted(os.listdir("/")):
        path, mode = f"/{name}", os.lstat(f"/{name}").st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(path), new + path)
        elif stat.S_ISDIR(mode):
            os.mkdir(new + path, 0o755)
            if name not in _PRIVATE or name == "sys":
                kernel.bind(path, new + path)
                if name != "sys" or not is_privileged:
                    kernel.restrict(new + path, _PRIVILEGED if is_privileged else _HOST, is_recursive=True)


def _make_devices(new: str, *, is_privileged: bool) -> None:
    if is_privileged:
        kernel.bind("/dev", f"{new}/dev")
        return
    kernel.mount_memory(f"{new}/dev", _SKELETON)
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{new}/dev/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            kernel.bind(f"/dev/{name}", f"{new}/dev/{name}")
    for name, target in _DEVICE_LINKS:
        os.symlink(target, f"{new}/dev/{name}")
    for name in ("pts", "shm"):
        os.mkdir(f"{new}/dev/{name}", 0o755)
    if os.path.isdir("/dev/pts"):
        kernel.bind("/dev/pts", f"{new}/dev/pts")
    kernel.mount_memory(f"{new}/dev/shm", f"mode=1777,size={_SHARED_MEMORY_BYTES}")
    # A place for the last message, where programs look for it that know of Kubernetes.
    os.close(os.open(f"{new}/dev/termination-log", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _hide(new: str, path: str) -> bool:
    """Cover a directory that is there. False if it is not."""
    if not os.path.isdir(new + path):
        return False
    kernel.mount_memory(new + path, _SKELETON)
    return True


def _mount_volumes(sources: list[tuple[int, str, bool]], own: str) -> None:
    points = [_find_point(path) for _, path, _ in sources]
    mounted: list[str] = []
    for (held, path, is_read_only), point in zip(sources, points, strict=True):
        attributes = kernel.NO_SETUID | (kernel.READ_ONLY if is_read_only else 0)
        try:
            _bind(held, point, attributes=attributes)
        except OSError as error:
            # The machine's directories are read-only, so there is no place for it where it should be.
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            _bind(held, own + path, attributes=attributes)
            continue
        if not any(path.startswith(f"{outer}/") for outer in mounted):
            _link(own, path)
        mounted.append(path)


def _find_point(path: str) -> str:
    """Where a volume is mounted. Not over what the sandbox is made of: its root, /proc, /sys and /dev as a whole."""
    point = os.path.realpath(path)
    if point in ("/", "/dev") or f"{point}/".startswith(("/proc/", "/sys/")):
        raise OSError(errno.EINVAL, f"cannot mount at {path}: a volume may not cover {point}")
    return point


def _link(own: str, path: str) -> None:
    """Let a mount also be found below the container's own directory."""
    root = beneath.open_directory(own)
    try:
        at = beneath.make_directories(root, os.path.dirname(path.strip("/")))
        try:
            os.symlink(path, os.path.basename(path), dir_fd=at)
        finally:
            os.close(at)
    except OSError:
        return  # Something of another mount is there.
    finally:
        os.close(root)


def _bind(held: int, point: str, *, attributes: int = kernel.NO_SETUID) -> None:
    """Mount something at an absolute path, and make what is missing of that. No link is followed: a container could
    make root create files anywhere."""
    opened = []
    try:
        opened.append(root := beneath.open_directory("/"))
        is_directory = stat.S_ISDIR(os.fstat(held).st_mode)
        try:
            opened.append(target := beneath.open_beneath(root, point.lstrip("/") or "."))
        except FileNotFoundError:
            opened.append(target := _make_point(root, point.lstrip("/"), is_directory))
        if is_directory != stat.S_ISDIR(os.fstat(target).st_mode):
            kind = "file" if is_directory else "directory"
            raise OSError(errno.ENOTDIR, f"cannot mount at {point}: there is a {kind} on this machine")
        kernel.bind(f"/proc/self/fd/{held}", f"/proc/self/fd/{target}")
        opened.append(mounted := beneath.open_beneath(root, point.lstrip("/") or "."))
        kernel.restrict(f"/proc/self/fd/{mounted}", attributes, is_recursive=True)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _make_point(root: int, point: str, is_directory: bool) -> int:
    if is_directory:
        return beneath.make_directories(root, point)
    parent = beneath.make_directories(root, os.path.dirname(point))
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(os.path.basename(point), flags, 0o644, dir_fd=parent)
    finally:
        os.close(parent)
