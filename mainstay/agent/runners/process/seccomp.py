"""The filter on system calls that a container has unless it asks for another: a BPF program, put together here.

It refuses what the default profiles of container runtimes refuse: mounting, namespaces, modules, `bpf`, `perf`, keys,
other clocks, swap, rebooting, `io_uring`. Most of these the kernel would refuse anyway to a process without
capabilities; the filter keeps their code, and its bugs, out of reach. What it does not know is allowed. Of sockets it
refuses two families: AF_VSOCK reaches past all network namespaces, to the host of a virtual machine or to its guests;
AF_ALG is the kernel's own cryptography, which unprivileged programs have used to become root.

A refused call fails with EPERM. `clone3` fails with ENOSYS, because a filter cannot look at its flags: the C library
then uses `clone`. So do all calls by another architecture's numbers (i386 and x32 on x86_64).
"""

import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # In `struct seccomp_data`, on little-endian machines.
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_X32 = 0x40000000
_NEW_NAMESPACES = 0x7E020000  # All flags CLONE_NEW* of `clone`.
_AF_ALG, _AF_VSOCK = 38, 40

# Names for readers; numbers on x86_64 and on aarch64, where some do not exist.
_REFUSED: Final[dict[str, tuple[int, int | None]]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "iopl": (172, None),
    "ioperm": (173, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "_sysctl": (156, None),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "vhangup": (153, 58),
    "syslog": (103, 116),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "fanotify_init": (300, 262),
    "memfd_secret": (447, 447),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
}


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int
    """How the kernel calls it: AUDIT_ARCH_*."""
    clone: int
    clone3: int
    socket: int
    column: int


_ARCHITECTURES: Final = {
    "x86_64": _Architecture(0xC000003E, 56, 435, 41, 0),
    "aarch64": _Architecture(0xC00000B7, 220, 435, 198, 1),
}


@cache
def build_filter(machine: str | None = None) -> bytes:
    """The program for an architecture, by default this one. Empty if there is none for it."""
    found = _ARCHITECTURES.get(platform.machine() if machine is None else machine)
    if found is None:
        return b""
    numbers = [pair[found.column] for pair in _REFUSED.values()]
    refused = sorted(number for number in numbers if number is not None)
    return _assemble(found, refused)


def _assemble(machine: _Architecture, refused: Sequence[int]) -> bytes:
    # At the end: allow, EPERM, ENOSYS, and the looks at the flags of `clone` and at the family of `socket`. Jumps are
    # relative, and only go down.
    checks = 7 + len(refused)
    deny, unknown, clone, socket = checks + 1, checks + 2, checks + 3, checks + 7
    program: list[tuple[int, int, int, int]] = []

    def jump(code: int, value: int, target: int) -> None:
        program.append((code, target - len(program) - 1, 0, value))

    program.append((_LOAD, 0, 0, _ARCHITECTURE_AT))
    program.append((_EQUAL, 0, unknown - len(program) - 1, machine.audit))
    program.append((_LOAD, 0, 0, _NUMBER_AT))
    jump(_AT_LEAST, _X32, unknown)
    jump(_EQUAL, machine.clone3, unknown)
    jump(_EQUAL, machine.clone, clone)
    jump(_EQUAL, machine.socket, socket)
    for number in refused:
        jump(_EQUAL, number, deny)
    program.append((_RETURN, 0, 0, _ALLOW))
    program.append((_RETURN, 0, 0, _FAIL | _EPERM))
    program.append((_RETURN, 0, 0, _FAIL | _ENOSYS))
    program.append((_LOAD, 0, 0, _FIRST_ARGUMENT_AT))
    program.append((_ANY_BIT, 0, 1, _NEW_NAMESPACES))
    program.append((_RETURN, 0, 0, _FAIL | _EPERM))
    program.append((_RETURN, 0, 0, _ALLOW))
    program.append((_LOAD, 0, 0, _FIRST_ARGUMENT_AT))
    program.append((_EQUAL, 2, 0, _AF_ALG))
    program.append((_EQUAL, 1, 0, _AF_VSOCK))
    program.append((_RETURN, 0, 0, _ALLOW))
    program.append((_RETURN, 0, 0, _FAIL | _EPERM))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)
