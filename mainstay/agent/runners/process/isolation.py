"""What this machine lets us keep from a container, and what of that a container gets.

`find_isolation` tries it out once, when the agent starts, in a process of its own that does what a shim does.
`plan_sandbox` is a plain function: from what a container asks for and what there is, to what a shim has to do; or a
`CannotRun` with the kubelet's reason, for a container that explicitly asks for what this machine cannot give.

| the agent is | containers are | |
|---|---|---|
| root | isolated | a user of the pod's own (identities.py), without a user namespace as long as the pod names no id |
| another user | isolated | in a user namespace, in which the agent's user is the only one |
| root, without namespaces | not isolated | a user of the pod's own; pods that name ids are refused |
| another user, or root without CAP_SETUID; no namespaces | not isolated | the agent's user, without capabilities |
"""

import os
import pwd
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mainstay.agent.runner import CannotRun, ContainerSpec
from mainstay.agent.runners.process import seccomp
from mainstay.agent.runners.process.identities import DEFAULT, FIRST, find_on_machine, map_ids
from mainstay.agent.runners.process.places import OPEN
from mainstay.env import commands

_CONFIG_ERROR: Final = "CreateContainerConfigError"
_SHIM: Final = str(Path(__file__).with_name("shim.py"))
_ACCOUNTS_FROM: Final = 1000  # Users with smaller ids are services: they have no home in this sense.
_NOT_HOMES: Final = ("/", "/bin", "/dev", "/etc", "/lib", "/opt", "/proc", "/sbin", "/sys", "/usr", "/var")
NET_BIND_SERVICE: Final = 10
ISOLATED: Final = ("file system", "processes", "users", "runAsUser", "system calls")
"""What containers are kept from, where the machine allows it."""
_NUMBERS: Final = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": NET_BIND_SERVICE,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "MKNOD": 27,
    "AUDIT_WRITE": 29,
    "SETFCAP": 31,
}
"""The capabilities that container runtimes give by default: the most that root in a user namespace has here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIsolation:
    """What can be had on this machine."""

    user: int = 0
    """Who the agent is. 0: root."""
    group: int = 0
    has_namespaces: bool = True
    """Of mounts, process ids and IPC."""
    has_users: bool = True
    """User namespaces."""
    has_ids: bool = True
    """Whether root can give pods ids of their own."""
    has_network: bool = False
    """Whether pods have a network of their own."""
    filter: bytes = b""
    """The program for seccomp. Empty: there is none."""
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    why: str = ""
    """If something is missing: what the kernel said."""

    @property
    def missing(self) -> tuple[str, ...]:
        """What of `ISOLATED` containers are not kept from."""
        files, processes, users, named, calls = ISOLATED
        found: list[str] = []
        if not self.has_namespaces:
            found += [files, processes]
        if not self.has_blocks:
            found.append(users)
        if not (self.has_users and self.has_namespaces):
            found.append(named)
        if not self.filter:
            found.append(calls)
        return tuple(found)

    @property
    def summary(self) -> str:
        """For people: what each pod has for itself, and what it shares with the machine."""
        lacks = self.missing
        own = [name for name in ISOLATED if name not in lacks] + (["network"] if self.has_network else [])
        shared = ", ".join([*([] if self.has_network else ["network"]), "kernel", *lacks])
        agents = "" if self.has_namespaces or self.has_blocks else "; pods can read and change whatever the agent can"
        why = f" ({self.why})" if self.why else ""
        return f"isolated: {', '.join(own) or 'nothing'}; shared: {shared}{agents}{why}"

    @property
    def has_blocks(self) -> bool:
        """Whether pods have ids of their own."""
        return self.user == 0 and self.has_ids

    @property
    def container_user(self) -> int:
        """Who containers are that name no user. With blocks, the number differs from pod to pod; it is never 0."""
        return DEFAULT if self.has_blocks else self.user


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a shim has to do. In the words of `Orders`; the defaults are for containers of earlier versions."""

    is_isolated: bool = False
    has_own_pids: bool = False
    has_own_ipc: bool = False
    network: str = ""
    is_privileged: bool = False
    is_read_only: bool = False
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    owner: tuple[int, int] = (-1, -1)
    user_map: tuple[tuple[int, int, int], ...] = ()
    group_map: tuple[tuple[int, int, int], ...] = ()
    is_own_user: bool = False
    user: int | None = None
    group: int | None = None
    groups: tuple[int, ...] = ()
    capabilities: tuple[int, ...] | None = None
    ambient: tuple[int, ...] = ()
    gains_nothing: bool = False
    has_filter: bool = False


def find_isolation(directory: Path) -> MachineIsolation:
    """What this machine lets us do, for the runner that has this directory. Blocks."""
    tried = commands.run_to_end([sys.executable, "-I", "-S", _SHIM, "check", str(FIRST), "-"], cwd=Path("/"))
    words = dict(line.split(" ", 1) for line in tried.output.decode(errors="replace").splitlines() if " " in line)
    has_namespaces, has_users = words.get("namespaces") == "yes", words.get("users") == "yes"
    asked = ("namespaces", "users", *(("ids",) if os.geteuid() == 0 else ()), "filter")
    return MachineIsolation(
        user=os.geteuid(),
        group=os.getegid(),
        has_namespaces=has_namespaces,
        has_users=has_users,
        has_ids=words.get("ids") == "yes",
        filter=seccomp.build_filter() if words.get("filter") == "yes" else b"",
        hidden=tuple(find_hidden(directory)),
        shown=tuple(dict.fromkeys(os.path.realpath(path) for path in (sys.prefix, sys.base_prefix))),
        why=next((words[each] for each in asked if words.get(each, "yes") != "yes"), ""),
    )


def find_hidden(directory: Path) -> list[str]:
    """What no container sees: the homes of users, and the directory of the agent, from the outermost on that is closed
    to others: the keys of a cluster of one machine are above that of its agents. Also what agents keep elsewhere."""
    path = directory.resolve()
    closed = [each for each in (path, *path.parents) if each.is_dir() and not each.stat().st_mode & 0o007]
    found = {"/root", "/home", str(OPEN), str(closed[-1] if closed else path)}
    for account in pwd.getpwall():
        home = os.path.normpath(account.pw_dir)
        if (account.pw_uid == 0 or account.pw_uid >= _ACCOUNTS_FROM) and home not in _NOT_HOMES:
            found.add(home)
    # Without links: what a container sees has the links of the machine, but not at every moment of its making.
    return sorted({os.path.realpath(path) for path in found if os.path.isdir(path)} - {"/"})


def plan_sandbox(spec: ContainerSpec, machine: MachineIsolation, block: int) -> Sandbox:
    """What becomes of a container of the pod that has this block of ids. Raises `CannotRun`."""
    asked = spec.security
    if asked.seccomp == "RuntimeDefault" and not machine.filter:
        raise CannotRun(_CONFIG_ERROR, "seccompProfile RuntimeDefault: this node has no seccomp")
    if not machine.has_namespaces or not (machine.has_blocks or machine.has_users):
        return _plan_without_namespaces(spec, machine, block)
    if not machine.has_blocks:
        return _plan_for_user(spec, machine)
    names_ids = spec.user is not None or spec.group is not None or bool(spec.groups) or asked.has_own_users
    if asked.is_privileged:
        return replace(
            _plan_namespaces(spec, machine),
            is_privileged=True,
            user=spec.user or 0,
            group=spec.group or 0,
            groups=tuple(sorted({spec.group or 0, *spec.groups})),
            owner=(spec.user or 0, spec.group or 0),
        )
    user = DEFAULT if spec.user is None else spec.user
    # A user that names no group has group 0 of its namespace, as with container runtimes: images count on it.
    group = (0 if spec.user is not None else DEFAULT) if spec.group is None else spec.group
    bounded, ambient = _plan_capabilities(spec, is_root=user == 0, has_users=names_ids)
    if names_ids:
        if not machine.has_users:
            raise CannotRun(
                _CONFIG_ERROR,
                "runAsUser, runAsGroup, fsGroup, supplementalGroups and hostUsers: false need user namespaces, which "
                f"this node does not have ({machine.why})",
            )
        ids = (user, group, tuple(sorted({group, *spec.groups})))
    else:
        on_machine = find_on_machine(block, DEFAULT)
        ids = (on_machine, on_machine, (on_machine,))
    return replace(
        _plan_namespaces(spec, machine),
        owner=(find_on_machine(block, user), find_on_machine(block, group)),
        user_map=map_ids(block, (user,)) if names_ids else (),
        group_map=map_ids(block, ids[2]) if names_ids else (),
        user=ids[0],
        group=ids[1],
        groups=ids[2],
        capabilities=bounded,
        ambient=ambient,
        gains_nothing=True,
        has_filter=bool(machine.filter) and asked.seccomp != "Unconfined",
    )


def _plan_namespaces(spec: ContainerSpec, machine: MachineIsolation) -> Sandbox:
    """What is the same for all that have namespaces."""
    return Sandbox(
        is_isolated=True,
        has_own_pids=not spec.security.has_host_pids,
        has_own_ipc=not spec.security.has_host_ipc,
        is_read_only=spec.security.is_read_only,
        hidden=machine.hidden,
        shown=machine.shown,
    )


def _plan_for_user(spec: ContainerSpec, machine: MachineIsolation) -> Sandbox:
    """The agent has only its own user to give, by whatever number the container wants to call it."""
    asked = spec.security
    if asked.is_privileged:
        raise CannotRun(_CONFIG_ERROR, "privileged: the agent of this node is not root of the machine")
    user = machine.user if spec.user is None else spec.user
    group = machine.group if spec.group is None else spec.group
    if others := [each for each in spec.groups if each != group]:
        raise CannotRun(
            _CONFIG_ERROR, f"fsGroup and supplementalGroups {others}: the agent of this node is not root of the machine"
        )
    bounded, _ = _plan_capabilities(spec, is_root=spec.user == 0, has_users=True)
    return replace(
        _plan_namespaces(spec, machine),
        user_map=((user, machine.user, 1),),
        group_map=((group, machine.group, 1),),
        is_own_user=True,
        user=user,
        group=group,
        capabilities=bounded,
        gains_nothing=True,
        has_filter=bool(machine.filter) and asked.seccomp != "Unconfined",
    )


def _plan_without_namespaces(spec: ContainerSpec, machine: MachineIsolation, block: int) -> Sandbox:
    """The machine's files as they are, so an id that a pod names would be that account of the machine: only ids that
    no other pod has are given."""
    asked = spec.security
    # Who a container would be anyway; root of the machine, if it is privileged.
    given = (0, 0) if asked.is_privileged else (-1, -1) if machine.has_blocks else (machine.user, machine.group)
    refused = {
        f"runAsUser {spec.user}": spec.user not in (None, given[0]),
        f"runAsGroup {spec.group}": spec.group not in (None, given[1]),
        f"fsGroup and supplementalGroups {list(spec.groups)}": bool(spec.groups),
        "hostUsers: false": asked.has_own_users,
        "readOnlyRootFilesystem": asked.is_read_only,
        "privileged": asked.is_privileged and machine.user != 0,
    }
    if wanted := [name for name, is_wanted in refused.items() if is_wanted]:
        raise CannotRun(
            _CONFIG_ERROR,
            f"{', '.join(wanted)}: needs namespaces, which this node does not have ({machine.why}): leave it out, or "
            "run the pod on a node that has them",
        )
    if asked.is_privileged:
        return Sandbox(user=0 if machine.has_blocks else None, group=0 if machine.has_blocks else None)
    bounded, ambient = _plan_capabilities(spec, is_root=False, has_users=False)
    own = find_on_machine(block, DEFAULT)
    return Sandbox(
        owner=(own, own) if machine.has_blocks else (-1, -1),
        user=own if machine.has_blocks else None,
        group=own if machine.has_blocks else None,
        groups=(own,) if machine.has_blocks else (),
        capabilities=bounded if machine.has_blocks else (),
        ambient=ambient if machine.has_blocks else (),
        gains_nothing=True,
        has_filter=bool(machine.filter) and asked.seccomp != "Unconfined",
    )


def _plan_capabilities(
    spec: ContainerSpec, *, is_root: bool, has_users: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Those that a container may have at most, and those that it has without being root."""
    added, dropped = set(spec.security.capabilities_added), set(spec.security.capabilities_dropped)
    if unknown := sorted(added - {*_NUMBERS, "ALL"}) or (["ALL"] if "ALL" in added else []):
        raise CannotRun(
            _CONFIG_ERROR,
            f"capabilities.add {', '.join(unknown)}: a container that is not privileged can have no more than "
            f"{', '.join(_NUMBERS)}",
        )
    if has_users and "NET_BIND_SERVICE" in added:
        raise CannotRun(
            _CONFIG_ERROR,
            "capabilities.add NET_BIND_SERVICE: the user namespace of a pod that names its users or groups has no "
            "rights on the network of the machine: listen on a port from 1024 on, or leave out runAsUser, runAsGroup, "
            "fsGroup and supplementalGroups",
        )
    if not is_root:
        if others := sorted(added - {"NET_BIND_SERVICE"}):
            raise CannotRun(
                _CONFIG_ERROR, f"capabilities.add {', '.join(others)}: only root has them: set runAsUser: 0"
            )
        is_kept = not has_users and ("NET_BIND_SERVICE" in added or not dropped & {"ALL", "NET_BIND_SERVICE"})
        kept = (NET_BIND_SERVICE,) if is_kept else ()
        return kept, kept
    default = set() if "ALL" in dropped else set(_NUMBERS) - dropped
    return tuple(sorted(_NUMBERS[name] for name in default | added)), ()
