"""A process that runs a command beside a container, started by shim.py. See sessions.py for the other side.

It ends with the exit code of the command, and leaves nothing of it: neither when the command has ended, nor when
its client goes away, which is the end of the pipe `control`, nor when the container ends.
"""

from __future__ import annotations

import errno
import os
import select

from mainstay.agent.runners.process import exec_setup, kernel, trees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from mainstay.agent.runners.process.orders import Orders

_ROUND_MS = 20


def run(descriptor: int) -> int:
    """Do it all. Returns the exit code of the command, as shells count."""
    orders = exec_setup.read_orders(descriptor)
    kernel.ignore(kernel.SIGHUP, kernel.SIGINT, kernel.SIGQUIT, kernel.SIGTERM)
    container = _process(orders["pid"])
    if container is None:
        return 128 + kernel.SIGKILL
    os.set_inheritable(orders["control"], False)
    try:
        if orders["network"]:
            kernel.join(kernel.open_namespace(orders["pid"], kernel.NEW_NETWORK))
        if orders["is_own_user"]:
            kernel.join(kernel.open_namespace(orders["pid"], kernel.NEW_USERS))
        if not (orders["is_isolated"] and orders["has_own_pids"]):
            return _look_after(orders, container)
        # Only children are in another namespace of process ids; there, one of ours adopts what the command leaves.
        kernel.join(kernel.open_namespace(orders["pid"], kernel.NEW_PIDS))
    except OSError as error:
        return _fail(error)
    pid = os.fork()
    if pid == 0:
        kernel.die_with_parent()
        exec_setup.fail(_look_after(orders, container))
    _let_go_of_streams()
    os.close(orders["control"])
    _, status = os.waitpid(pid, 0)
    return _find_code(status)


def _look_after(orders: Orders, container: int) -> int:
    kernel.adopt_orphans()
    children_ended = kernel.children_ended()
    try:
        groups = trees.open_cgroups(directory for directory, _ in orders["cgroups"])
        has_users = orders["user_map"] and not orders["is_own_user"]
        users = [kernel.open_namespace(orders["pid"], kernel.NEW_USERS)] if has_users else []
        # Here already: there, /proc is that of its process ids.
        exec_setup.enter(orders, orders["pid"])
    except OSError as error:
        return _fail(error)
    pid = os.fork()
    if pid == 0:
        _become(orders, groups, users)
    for descriptor in (*groups, *users):
        os.close(descriptor)
    _let_go_of_streams()
    poll = select.poll()
    poll.register(children_ended, select.POLLIN)
    poll.register(orders["control"], select.POLLIN)
    poll.register(container, select.POLLIN)
    status: int | None = None
    while (status := _reap(pid, status)) is None:
        for descriptor, _ in poll.poll():
            if descriptor == children_ended:
                os.read(descriptor, 1024)
            else:
                trees.kill(pid)
                poll.unregister(descriptor)
    while left := trees.children():
        for child in left:
            trees.kill(child)
        poll.poll(_ROUND_MS)
        _reap(pid, status)
    return _find_code(status)


def _let_go_of_streams() -> None:
    """They are the command's alone: their end must be seen."""
    nothing = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def _find_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _fail(error: OSError) -> int:
    os.write(2, f"mainstay: {exec_setup.explain(error)}\n".encode("utf-8", "replace"))
    return exec_setup.NOT_EXECUTABLE


def _process(pid: int) -> int | None:
    """A descriptor that can be read when a process has ended. None if it has."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _reap(first: int, status: int | None) -> int | None:
    try:
        while True:
            pid, found = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return status
            if pid == first:
                status = found
    except ChildProcessError:
        return status


def _become(orders: Orders, groups: list[int], users: list[int]) -> NoReturn:
    code = exec_setup.NOT_EXECUTABLE
    try:
        parent = os.getppid()
        exec_setup.begin_session(has_terminal=orders["has_terminal"])
        trees.join_cgroups(groups)
        kernel.join(*users)
        exec_setup.become_user(orders)
        kernel.die_with_parent()
        if os.getppid() == parent:
            exec_setup.execute(orders)
    except OSError as error:
        if isinstance(error, exec_setup.NotExecuted) and error.errno == errno.ENOENT:
            code = exec_setup.NOT_FOUND
        os.write(2, f"mainstay: {exec_setup.explain(error)}\n".encode("utf-8", "replace"))
    except BaseException as error:  # noqa: BLE001 - there is no caller to raise to
        os.write(2, f"mainstay: {error!r}\n".encode("utf-8", "replace"))
    exec_setup.fail(code)
