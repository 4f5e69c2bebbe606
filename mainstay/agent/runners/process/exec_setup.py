"""How a forked process becomes the command of a container: cgroups, mounts, directory, user, streams, execute.

Mounts. A container has no file system of its own, so what it mounts is found at `$MAINSTAY_ROOT/PATH`, always. Where we
may, it is also found at the very path: bound there in a mount namespace of the container's own, if that path exists on
this machine, or can be made below one of `_MAY_MAKE_BELOW`, where an empty directory does no harm; or if it is
`_LAST_MESSAGE`, where programs leave it that know of Kubernetes: all of them would write to one file of the machine's.

The agent's directories are closed to other users. A container of another user sees, of all of them, that of its pod.
"""

from __future__ import annotations

import errno
import marshal
import os

from mainstay.agent.runners.process import kernel, trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from mainstay.agent.runners.process.orders import Orders

_MAY_MAKE_BELOW = ("/run/", "/tmp/", "/mnt/")
_LAST_MESSAGE = "/dev/termination-log"
_UMASK = 0o022
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def read_orders(descriptor: int) -> Orders:
    with open(descriptor, "rb") as file:
        file.seek(0)
        orders: Orders = marshal.loads(file.read())
    return orders


def prepare_root(orders: Orders) -> None:
    """Make the container's own directory, with a link for each mount."""
    root = orders["root"]
    os.makedirs(root, exist_ok=True)
    os.chmod(root, 0o755)
    if os.geteuid() == 0:
        os.chown(root, _or_none(orders["user"]), _or_none(orders["group"]))
    for source, path, _ in sorted(orders["mounts"], key=lambda mount: mount[1]):
        link = root + os.path.normpath(path)
        if os.path.lexists(link) or link == root + "/":
            continue  # Inside a volume that has something there.
        try:
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(source, link)
        except OSError:
            continue  # Inside a volume that cannot be written. It is still found at its own path.


def _or_none(number: int | None) -> int:
    return -1 if number is None else number


def enter(orders: Orders) -> None:
    """Take on all of a container that a process can: in the end only executing is left. Raises `OSError`."""
    kernel.forget_signals()
    trees.join_cgroups(directory for directory, _ in orders["cgroups"])
    if orders["is_mounting"]:
        _mount(orders)
    # First as ourselves: the way there may be closed to the user.
    _go_to(orders["cwd"] or orders["root"], orders["root"])
    if orders["user"] is not None or orders["group"] is not None or orders["groups"]:
        _switch_user(orders["user"], orders["group"], orders["groups"])
    os.umask(_UMASK)


def _mount(orders: Orders) -> None:
    if orders["pid"]:
        if os.stat(f"/proc/{orders['pid']}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
            kernel.join_mounts(orders["pid"])
        return
    mounts = sorted(orders["mounts"], key=lambda mount: mount[1])
    closed = _closed_to_user(orders)
    if closed or any(_can_be_at(path) for _, path, _ in mounts):
        kernel.leave_mounts()
        for source, path, is_read_only in mounts:
            if _can_be_at(path):  # Perhaps only now: inside one that was just made.
                _bind(source, os.path.realpath(path), is_read_only)
        if closed:
            _open_the_way(closed, _pod_directory(orders))


def _pod_directory(orders: Orders) -> str:
    return orders["attempt"].rsplit("/", 3)[0]


def _closed_to_user(orders: Orders) -> str:
    """The first directory on the way to the pod's own that the user may not go through. Empty: there is none."""
    user, groups = orders["user"], {orders["group"] or 0, *orders["groups"]}
    if not user:
        return ""
    directory = ""
    for part in os.path.dirname(_pod_directory(orders)).split("/")[1:]:
        directory += f"/{part}"
        found = os.stat(directory)
        bit = 0o100 if found.st_uid == user else 0o010 if found.st_gid in groups else 0o001
        if not found.st_mode & bit:
            return directory
    return ""


def _open_the_way(closed: str, pod: str) -> None:
    """Let the directory of the pod be reached, where it always was, and nothing else that is in the closed one: the
    files of the agent and of other pods are none of the user's business."""
    held = os.open(pod, os.O_PATH | os.O_CLOEXEC)
    try:
        kernel.mount_empty(closed)
        os.makedirs(pod)
        kernel.bind(f"/proc/self/fd/{held}", pod, is_read_only=False)
    finally:
        os.close(held)


def _can_be_at(path: str) -> bool:
    is_harmless = path == _LAST_MESSAGE or os.path.realpath(path).startswith(_MAY_MAKE_BELOW)
    return is_harmless or os.path.exists(path)


def _bind(source: str, path: str, is_read_only: bool) -> None:
    if not os.path.exists(path):
        if os.path.isdir(source):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    if os.path.isdir(source) != os.path.isdir(path):
        kind = "directory" if os.path.isdir(path) else "file"
        raise OSError(errno.ENOTDIR, f"cannot mount at {path}: there is a {kind} on this machine")
    kernel.bind(source, path, is_read_only=is_read_only)


def _go_to(path: str, root: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        try:
            os.chdir(root + path)  # Below a mount that is only found there.
        except OSError:
            raise OSError(error.errno, f"working directory {path}: {_lowered(error)}") from None


def _switch_user(user: int | None, group: int | None, groups: list[int]) -> None:
    if os.geteuid() != 0:
        return  # The agent has made sure that no other user was asked for.
    # Without a group of its own, a user other than root must not keep that of root for lack of a better one: that is
    # what container runtimes give it all the same, and images count on it.
    group = 0 if group is None else group
    os.setgroups(sorted({group, *groups}))
    os.setgid(group)
    if user is not None:
        os.setuid(user)


def environment(orders: Orders) -> dict[str, str]:
    return {**dict(orders["env"]), trees.MARK: orders["root"]}


class NotExecuted(OSError):
    """The command is not there, or is none."""


def execute(orders: Orders) -> NoReturn:
    """Become the command. Raises `NotExecuted`.

    Not with `os.execvpe`, which imports a module first: by now the user may not be able to read it, or something else
    may be mounted there.
    """
    command, env = orders["argv"][0], environment(orders)
    directories = [""] if "/" in command else [f"{path or '.'}/" for path in env.get("PATH", _PATH).split(":")]
    # In the words that container runtimes use, and people search for.
    code, why = errno.ENOENT, "no such file or directory" if "/" in command else "executable file not found in $PATH"
    for directory in directories:
        try:
            os.execve(directory + command, orders["argv"], env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            code, why = error.errno or errno.EINVAL, _lowered(error)
        except ValueError as error:  # A NUL in an argument or in the environment.
            code, why = errno.EINVAL, str(error)
    raise NotExecuted(code, f'exec: "{command}": {why}')


def _lowered(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def explain(error: OSError) -> str:
    """Why it could not become the command, for the container's status."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename else what


def fail(code: int) -> NoReturn:
    """Leave a forked process, with nothing of what Python does at its end."""
    os._exit(code)
