"""How a forked process becomes the command of a container: cgroups, namespaces, user, rights, directory, execute.

A container that is isolated has a process of ours as the first of its namespaces (shim_loop.py, rootfs.py). Its
command, and those beside it, go to where that one is (`enter`), and then give up all rights that they do not need
(`become_user`).

One that is not isolated sees the machine as it is, and finds what it mounts at `$MAINSTAY_ROOT/PATH`.
"""

from __future__ import annotations

import errno
import marshal
import os

from mainstay.agent.runners.process import beneath, kernel, trees
from mainstay.agent.runners.process.rootfs import make_private_directories, open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from mainstay.agent.runners.process.orders import Orders

_UMASK = 0o022
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_FOUND, NOT_EXECUTABLE = 127, 126


def read_orders(descriptor: int) -> Orders:
    with open(descriptor, "rb") as file:
        file.seek(0)
        orders: Orders = marshal.loads(file.read())
    return orders


def prepare_root(orders: Orders) -> None:
    """Make the container's own directory; with a link for each mount, if nothing can be mounted."""
    root = orders["root"]
    os.makedirs(root, exist_ok=True)
    held = beneath.open_directory(root)
    try:
        os.fchmod(held, 0o755)
        if orders["owner"][0] >= 0:
            os.fchown(held, *orders["owner"])
        if orders["is_isolated"]:
            make_private_directories(orders)
        else:
            _link_mounts(orders, held)
    finally:
        os.close(held)


def _link_mounts(orders: Orders, held: int) -> None:
    # A mount inside another one has its link in that one's volume, where containers may have put links as well.
    linked: list[tuple[str, str, str]] = []
    for source, below, path, _ in sorted(orders["mounts"], key=lambda mount: mount[2]):
        outer = next((each for each in reversed(linked) if path.startswith(each[2].rstrip("/") + "/")), None)
        try:
            _link(held, outer, f"{source}/{below}" if below else source, path)
        except OSError:
            continue  # Inside a volume that cannot be written, or has something there.
        linked.append((source, below, path))


def _link(root: int, outer: tuple[str, str, str] | None, target: str, path: str) -> None:
    base, rest = (os.dup(root), path) if outer is None else (open_source(*outer[:2]), path[len(outer[2]) :])
    try:
        at = beneath.make_directories(base, os.path.dirname(rest.strip("/")))
        try:
            if name := os.path.basename(rest.strip("/")):
                os.symlink(target, name, dir_fd=at)
        finally:
            os.close(at)
    finally:
        os.close(base)


def begin_session(*, has_terminal: bool) -> None:
    """Be the first of a session, whose terminal is the standard input, if that is one."""
    if has_terminal:
        os.login_tty(os.dup(0))
    else:
        os.setsid()


def enter(orders: Orders, pid: int) -> None:
    """Go to where the container is: to the file system of one of its processes. What may be needed from outside must
    be open already. Raises `OSError`."""
    if orders["is_isolated"]:
        kinds = (kernel.NEW_IPC, kernel.NEW_MOUNTS) if orders["has_own_ipc"] else (kernel.NEW_MOUNTS,)
        kernel.join(*[kernel.open_namespace(pid, kind) for kind in kinds])
        os.chdir("/")


def become_user(orders: Orders) -> None:
    """Be the user of the container, with no more rights than it has: in the end only executing is left. In the user
    namespace of the container, if it has one. Raises `OSError`."""
    kernel.forget_signals()
    if not orders["is_isolated"]:
        # First as ourselves: the way there may be closed to the user.
        _go_to(orders["cwd"] or orders["root"], orders["root"])
    bounded, ambient = orders["capabilities"], orders["ambient"]
    if bounded is not None:
        kernel.limit_capabilities(bounded)
        if ambient:
            kernel.keep_capabilities()
    if orders["user"] is not None:
        if not orders["is_own_user"]:
            os.setgroups(orders["groups"])
        group = orders["group"] or 0
        os.setresgid(group, group, group)
        os.setresuid(orders["user"], orders["user"], orders["user"])
    if bounded is not None:
        kernel.set_capabilities(bounded if orders["user"] == 0 else ambient, ambient)
    os.umask(_UMASK)
    if orders["is_isolated"]:
        _go_to(orders["cwd"] or orders["root"], orders["root"])
    if orders["gains_nothing"]:
        kernel.gain_nothing()
    if orders["filter"]:
        kernel.filter_calls(orders["filter"])


def _go_to(path: str, root: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        try:
            os.chdir(root + path)  # Below a mount that is only found there.
        except OSError:
            raise OSError(error.errno, f"working directory {path}: {_lowered(error)}") from None


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
