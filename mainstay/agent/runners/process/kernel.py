"""Calls of the Linux kernel that Python has no function for, and signals without the cost of `signal`.

That module brings `enum` and `re` with it: a megabyte, and several milliseconds, for each container on the machine.
Every function raises `OSError` if the kernel refuses.
"""

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
_PR_CAPBSET_DROP, _PR_SET_KEEPCAPS = 24, 8
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 38, 47, 2
_CAPABILITY_VERSION = 0x20080522
_CAPABILITIES_MAX = 63
NEW_MOUNTS, NEW_IPC, NEW_USERS, NEW_PIDS, NEW_NETWORK = 0x20000, 0x08000000, 0x10000000, 0x20000000, 0x40000000
_NAMESPACES = {NEW_MOUNTS: "mnt", NEW_IPC: "ipc", NEW_USERS: "user", NEW_PIDS: "pid", NEW_NETWORK: "net"}
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20, 0x1000, 0x4000, 0x80000
_MNT_DETACH = 2
READ_ONLY, NO_SETUID, NO_DEVICES = 0x1, 0x2, 0x4  # Attributes of mounts, in the numbers of `mount_setattr`.
_OPENAT2, _MOUNT_SETATTR = 437, 442  # On every architecture.
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "s390x": 217, "ppc64le": 203}
_AT_RECURSIVE = 0x8000
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
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
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent ends. Lost when the user changes, so it comes after that."""
    _prctl(_PR_SET_PDEATHSIG, SIGKILL)


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


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(directory: int, path: str, flags: int, *, has_links: bool) -> int:
    """Open a path that does not leave a directory: neither by `..`, nor by links. With `has_links`, it may go through
    links that stay inside. Needs Linux 5.6."""
    resolve = _RESOLVE_BENEATH | (_RESOLVE_NO_MAGICLINKS if has_links else _RESOLVE_NO_SYMLINKS)
    how = _OpenHow(flags, 0, resolve)
    arguments = (ctypes.c_long(_OPENAT2), ctypes.c_int(directory), ctypes.c_char_p(os.fsencode(path)))
    return _call("syscall", *arguments, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))


def unshare(namespaces: int) -> None:
    """Leave namespaces for new ones. Of process ids, only the children are in the new one."""
    _call("unshare", namespaces)


def open_namespace(pid: int, kind: int) -> int:
    """A descriptor of the namespace that a process is in."""
    return os.open(f"/proc/{pid}/ns/{_NAMESPACES[kind]}", os.O_RDONLY | os.O_CLOEXEC)


def join(*descriptors: int) -> None:
    """Go to namespaces, in this order, and close the descriptors. Of process ids, only the children are there then."""
    for descriptor in descriptors:
        _call("setns", descriptor, 0)
        os.close(descriptor)


def keep_mounts_to_oneself() -> None:
    """From now on, what this process mounts is seen in its namespace alone. It goes on seeing what the machine does."""
    _call("mount", b"none", b"/", None, ctypes.c_ulong(_MS_REC | _MS_SLAVE), None)


def mount_memory(path: str, options: str) -> None:
    """Let an empty file system in memory be seen there."""
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV)
    _call("mount", b"tmpfs", os.fsencode(path), b"tmpfs", flags, options.encode())


def mount_processes(path: str) -> None:
    """Let /proc be seen there, as of this process's namespace of process ids."""
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _call("mount", b"proc", os.fsencode(path), b"proc", flags, None)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("users", ctypes.c_uint64),
    )


def restrict(path: str, attributes: int, *, is_recursive: bool = False) -> None:
    """Set attributes of what is mounted there, with `is_recursive` also of all that is mounted below."""
    how = _MountAttributes(attributes, 0, 0, 0)
    arguments = (ctypes.c_long(_MOUNT_SETATTR), ctypes.c_int(-100), ctypes.c_char_p(os.fsencode(path)))
    flags = ctypes.c_uint(_AT_RECURSIVE if is_recursive else 0)
    try:
        _call("syscall", *arguments, flags, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
    except OSError as error:
        if error.errno != errno.ENOSYS:  # Linux before 5.12: one at a time.
            raise
        for point in _mounted_below(path) if is_recursive else [path]:
            flag = _MS_BIND | _MS_REMOUNT | attributes | (os.statvfs(point).f_flag & _ST_KEPT)
            _call("mount", b"none", os.fsencode(point), None, ctypes.c_ulong(flag), None)


def _mounted_below(path: str) -> list[str]:
    at = os.path.realpath(path)
    with open("/proc/self/mountinfo", "rb") as file:
        # Of a line, the fifth field is the path, with blanks and the like as octal numbers.
        points = {os.fsdecode(line.split(b" ")[4].decode("unicode_escape").encode("latin-1")) for line in file}
    return [at, *sorted(point for point in points if point.startswith(at.rstrip("/") + "/"))]


def pivot(path: str) -> None:
    """Let a directory, on which something is mounted, be the root. The old one is still there, below it, as the
    directory in which this process is then (`forget_old_root`)."""
    os.chdir(path)
    number = _PIVOT_ROOT[os.uname().machine]
    _call("syscall", ctypes.c_long(number), ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))


def forget_old_root() -> None:
    """Unmount the root of before, with all that is mounted there."""
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def unmount(path: str) -> None:
    """Let what is mounted there be gone as soon as nothing uses it."""
    _call("umount2", os.fsencode(path), _MNT_DETACH)


def _prctl(option: int, *arguments: int) -> int:
    words = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _call("prctl", option, *words)


def reap_for_ever() -> None:
    """Do nothing but let the kernel remove children that have ended. Takes no memory of its own."""
    _libc.signal(SIGCHLD, ctypes.c_void_p(1))
    while True:
        _libc.pause()


def limit_capabilities(kept: Iterable[int]) -> None:
    """Give up all others for good, in this process and in what it executes."""
    for number in range(_CAPABILITIES_MAX + 1):
        if number not in kept:
            try:
                _prctl(_PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno == errno.EINVAL:  # It was the last that this kernel has.
                    return
                if error.errno != errno.EPERM:  # Who may not give them up has none.
                    raise


def keep_capabilities() -> None:
    """Do not lose them when the user changes."""
    _prctl(_PR_SET_KEEPCAPS, 1)


def set_capabilities(kept: Iterable[int], ambient: Iterable[int]) -> None:
    """Have at most these, of those that we have, and let programs that are executed have the ambient ones."""
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    _call("capget", header, data)
    permitted = data[1] | data[4] << 32  # For each half: effective, permitted, inheritable.
    held = sum(1 << number for number in kept) & permitted
    inherited = sum(1 << number for number in ambient) & permitted
    words = [word for half in (0, 32) for word in ((held >> half), (held >> half), (inherited >> half))]
    data = (ctypes.c_uint32 * 6)(*(word & 0xFFFFFFFF for word in words))
    _call("capset", header, data)
    for number in ambient:
        if inherited >> number & 1:
            _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number)


def gain_nothing() -> None:
    """From now on no program that is executed has more rights than this process (`no_new_privs`)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def filter_calls(program: bytes) -> None:
    """From now on, system calls go through a BPF program. See seccomp.py."""
    filter_ = _FilterProgram(len(program) // 8, program)
    _call("prctl", _PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(filter_))


def bind(source: str, path: str) -> None:
    """Let a directory or file be seen at another path."""
    _call("mount", os.fsencode(source), os.fsencode(path), None, ctypes.c_ulong(_MS_BIND | _MS_REC), None)
