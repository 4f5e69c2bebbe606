"""Calls of the Linux kernel that Python has no function for, and signals without the cost of `signal`.

That module brings `enum` and `re` with it: a megabyte, and several milliseconds, for each container on the machine.
Every function raises `OSError` if the kernel refuses.
"""

import ctypes
import os

# These numbers are the same on x86, ARM, RISC-V and s390.
SIGHUP = 1
SIGINT = 2
SIGQUIT = 3
SIGKILL = 9
SIGTERM = 15
SIGCHLD = 17

_SIGNALS_MAX = 64
_SIGSET_BYTES = 128
_SIG_BLOCK, _SIG_SETMASK = 0, 2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV = 0x1, 0x2, 0x4
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20, 0x1000, 0x4000, 0x80000
_ST_KEPT = 0xE  # nosuid, nodev, noexec: what a remount must repeat. Also the numbers of the flags of `mount`.

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> int:
    result = int(getattr(_libc, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def adopt_orphans() -> None:
    """Let descendants whose parent ends become children of this process, not of the machine's first one."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def die_with_parent() -> None:
    """Be killed when the parent ends. Lost when the user changes, so it comes after that."""
    _call("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(SIGKILL), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def ignore(*signals: int) -> None:
    for number in signals:
        _libc.signal(number, ctypes.c_void_p(1))


def children_ended() -> int:
    """A descriptor that can be read when a child has ended. From now on that interrupts nothing."""
    mask = ctypes.create_string_buffer(_SIGSET_BYTES)
    _call("sigemptyset", mask)
    _call("sigaddset", mask, SIGCHLD)
    _call("sigprocmask", _SIG_BLOCK, mask, None)
    return _call("signalfd", -1, mask, os.O_CLOEXEC | os.O_NONBLOCK)


def forget_signals() -> None:
    """As for a program that is started by hand: nothing is ignored, nothing is blocked."""
    for number in range(1, _SIGNALS_MAX + 1):
        _libc.signal(number, ctypes.c_void_p(0))  # Some cannot be set: by no program, or the C library needs them.
    mask = ctypes.create_string_buffer(_SIGSET_BYTES)
    _call("sigemptyset", mask)
    _call("sigprocmask", _SIG_SETMASK, mask, None)


def leave_mounts() -> None:
    """From now on, what this process mounts is seen by it and its children alone. It goes on seeing what others do."""
    _call("unshare", _CLONE_NEWNS)
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)


def mount_empty(path: str) -> None:
    """Let an empty directory be seen there, through which everybody may go."""
    _call("mount", b"none", os.fsencode(path), b"tmpfs", ctypes.c_ulong(_MS_NOSUID | _MS_NODEV), b"mode=711,size=64k")


def join_mounts(pid: int) -> None:
    """See the mounts of another process."""
    descriptor = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", descriptor, _CLONE_NEWNS)
    finally:
        os.close(descriptor)


def bind(source: str, path: str, *, is_read_only: bool) -> None:
    """Let a directory or file be seen at another path."""
    target = os.fsencode(path)
    _call("mount", os.fsencode(source), target, None, ctypes.c_ulong(_MS_BIND | _MS_REC), None)
    if is_read_only:
        flags = _MS_BIND | _MS_REMOUNT | _MS_RDONLY | (os.statvfs(path).f_flag & _ST_KEPT)
        _call("mount", b"none", target, None, ctypes.c_ulong(flags), None)
