"""What a container gets of what the machine has: plain functions, no processes."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mainstay.agent.runner import CannotRun, SecurityOptions
from mainstay.agent.runners.process import identities, seccomp
from mainstay.agent.runners.process.identities import (
    BLOCK,
    DEFAULT,
    FIRST,
    find_block,
    map_ids,
    release_block,
    take_block,
)
from mainstay.agent.runners.process.isolation import MachineIsolation, Sandbox, find_hidden, plan_sandbox
from mainstay.agent.runners.process.places import find_closed, find_pods, open_pods
from tests.agent.process.machine import a_spec

ROOT = MachineIsolation(filter=b"filter", hidden=("/root",), shown=("/usr",))
USER = replace(ROOT, user=1000, group=1000)
NOTHING = replace(ROOT, has_namespaces=False, has_users=False, filter=b"", why="Operation not permitted")
NET_BIND = 10
ALL_DEFAULT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)


def plan(
    machine: MachineIsolation = ROOT, *, user: int | None = None, more: dict[str, Any] | None = None, **security: Any
):
    spec = a_spec("", user=user, security=SecurityOptions(**security), **(more or {}))
    return plan_sandbox(spec, machine, FIRST)


def refusal(machine: MachineIsolation = ROOT, **asked: Any) -> str:
    with pytest.raises(CannotRun) as raised:
        plan(machine, **asked)
    assert raised.value.reason == "CreateContainerConfigError"
    return str(raised.value)


def test_by_default_a_pod_has_a_user_of_its_own_and_port_80():
    own = FIRST + DEFAULT
    assert plan() == Sandbox(
        is_isolated=True,
        has_own_pids=True,
        has_own_ipc=True,
        hidden=("/root",),
        shown=("/usr",),
        owner=(own, own),
        user=own,
        group=own,
        groups=(own,),
        capabilities=(NET_BIND,),
        ambient=(NET_BIND,),
        gains_nothing=True,
        has_filter=True,
    )


@pytest.mark.parametrize("dropped", [("ALL",), ("NET_BIND_SERVICE",)])
def test_what_is_dropped_is_gone(dropped: tuple[str, ...]):
    found = plan(capabilities_dropped=dropped)
    assert (found.capabilities, found.ambient) == ((), ())
    back = plan(capabilities_dropped=("ALL",), capabilities_added=("NET_BIND_SERVICE",))
    assert back.ambient == (NET_BIND,)


def test_a_user_that_is_named_is_one_of_the_pods_own():
    found = plan(user=1000, more={"group": 2000, "groups": (42,)})
    assert (found.user, found.group, found.groups) == (1000, 2000, (42, 2000))
    assert found.user_map == found.group_map == ((0, FIRST, 65536),)
    assert found.owner == (FIRST + 1000, FIRST + 2000)
    assert (found.capabilities, found.ambient) == ((), ())


def test_root_is_root_of_a_user_namespace():
    found = plan(user=0)
    assert (found.user, found.owner, found.user_map) == (0, (FIRST, FIRST), ((0, FIRST, 65536),))
    assert found.capabilities == ALL_DEFAULT
    assert plan(user=0, capabilities_dropped=("ALL",), capabilities_added=("CHOWN",)).capabilities == (0,)


def test_large_ids_have_a_place_in_the_block():
    assert map_ids(FIRST, (1_000_680_000, 7)) == (
        (0, FIRST, 65536),
        (1_000_680_000, FIRST + 65536 + 1_000_680_000 % 65536, 1),
    )
    with pytest.raises(CannotRun, match="cannot map ids"):
        map_ids(FIRST, (100_000, 165_536))


def test_privileged_is_root_of_the_machine():
    found = plan(is_privileged=True)
    assert (found.is_privileged, found.user, found.capabilities, found.gains_nothing) == (True, 0, None, False)
    assert (found.user_map, found.has_filter) == ((), False)


def test_what_a_container_asks_for_is_kept_or_refused():
    assert plan(seccomp="Unconfined").has_filter is False
    assert plan(has_host_pids=True).has_own_pids is False
    assert plan(has_host_ipc=True).has_own_ipc is False
    assert plan(is_read_only=True).is_read_only
    assert plan(has_own_users=True).user_map != ()
    assert "SYS_ADMIN" in refusal(user=0, capabilities_added=("SYS_ADMIN",))
    assert "only root has them: set runAsUser: 0" in refusal(capabilities_added=("CHOWN",))
    assert "listen on a port from 1024 on" in refusal(user=1000, capabilities_added=("NET_BIND_SERVICE",))
    assert "need user namespaces" in refusal(replace(ROOT, has_users=False), user=1000)
    assert plan(replace(ROOT, has_users=False)).user == FIRST + DEFAULT


def test_an_agent_that_is_not_root_has_one_user_to_give():
    found = plan(USER)
    assert (found.is_own_user, found.user, found.user_map) == (True, 1000, ((1000, 1000, 1),))
    assert plan(USER, user=0).user_map == ((0, 1000, 1),)
    assert "is not root of the machine" in refusal(USER, is_privileged=True)
    assert "is not root of the machine" in refusal(USER, more={"groups": (5,)})


def test_root_without_ids_to_give_is_as_any_user():
    """Root of another container, for example, in which only some ids exist."""
    found = plan(replace(ROOT, has_ids=False))
    assert (found.is_own_user, found.user, found.user_map, found.capabilities) == (True, 0, ((0, 0, 1),), ())
    assert "users" in replace(ROOT, has_ids=False).missing


def test_without_namespaces_a_pod_of_root_still_has_a_user_of_its_own():
    """B5: it was root of the machine, with 14 capabilities, and could read the keys of the cluster."""
    own = FIRST + DEFAULT
    found = plan(NOTHING)
    assert found == Sandbox(
        owner=(own, own),
        user=own,
        group=own,
        groups=(own,),
        capabilities=(NET_BIND,),
        ambient=(NET_BIND,),
        gains_nothing=True,
    )
    assert plan(replace(NOTHING, filter=b"filter")).has_filter
    assert plan(NOTHING, capabilities_dropped=("ALL",)).ambient == ()
    root = plan(NOTHING, is_privileged=True)
    assert (root.user, root.capabilities, root.gains_nothing) == (0, None, False)


@pytest.mark.parametrize("machine", [NOTHING, replace(NOTHING, has_users=True)])
def test_without_namespaces_what_needs_them_is_refused(machine: MachineIsolation):
    for asked in (
        {"user": 0},
        {"user": 1000},
        {"user": FIRST + DEFAULT},
        {"more": {"group": 0}},
        {"more": {"groups": (5,)}},
        {"is_read_only": True},
        {"has_own_users": True},
        {"user": 1000, "is_privileged": True},
    ):
        text = refusal(machine, **asked)
        assert "needs namespaces, which this node does not have (Operation not permitted): leave it out" in text
    assert "no seccomp" in refusal(machine, seccomp="RuntimeDefault")


@pytest.mark.parametrize("machine", [replace(NOTHING, has_ids=False), replace(NOTHING, user=1000, group=1000)])
def test_without_namespaces_and_users_a_pod_is_who_the_agent_is(machine: MachineIsolation):
    found = plan(machine)
    assert (found.user, found.capabilities, found.ambient, found.gains_nothing) == (None, (), (), True)
    assert refusal(machine, user=4321)
    assert machine.summary.endswith("; pods can read and change whatever the agent can (Operation not permitted)")


def test_a_node_says_what_is_shared():
    assert ROOT.missing == ()
    assert ROOT.summary == ("isolated: file system, processes, users, runAsUser, system calls; shared: network, kernel")
    assert NOTHING.summary == (
        "isolated: users; shared: network, kernel, file system, processes, runAsUser, system calls "
        "(Operation not permitted)"
    )
    assert (ROOT.container_user, USER.container_user, NOTHING.container_user) == (DEFAULT, 1000, DEFAULT)
    assert replace(NOTHING, has_ids=False).container_user == 0


def test_pods_that_cannot_mount_are_where_their_users_can_go(tmp_path: Path):
    """Where the way to the agent's directory is closed, as it is to that of pytest."""
    agent, place = tmp_path / "closed" / "agent", tmp_path / "mainstay" / "pods"
    (agent / "pods").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    assert tmp_path / "closed" in find_closed(agent)
    (agent / "pods" / "earlier").mkdir()
    assert open_pods(agent, place) == agent / "pods"
    (agent / "pods" / "earlier").rmdir()
    moved = open_pods(agent, place)
    assert moved.parent == place
    assert open_pods(agent, place) == find_pods(agent) == moved == (agent / "pods").resolve()
    assert [each for each in find_closed(moved) if each.is_relative_to(place.parent)] == []


def test_the_outermost_closed_directory_above_the_agents_is_hidden(tmp_path: Path):
    cluster = tmp_path / "open" / "cluster"
    node = cluster / "nodes" / "a"
    node.mkdir(parents=True)
    for path in (*list(tmp_path.parents)[:-1], tmp_path, tmp_path / "open"):
        if path.stat().st_mode & 0o007 == 0:
            path.chmod(0o755)
    cluster.chmod(0o700)
    (cluster / "nodes").chmod(0o755)
    assert str(cluster) in find_hidden(node)
    cluster.chmod(0o755)
    node.chmod(0o755)
    assert str(node) in find_hidden(node)


def test_a_pod_keeps_its_block_until_it_is_gone(tmp_path: Path):
    shared, one, two = tmp_path / "ids", tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert take_block(one, shared) == take_block(one, shared) == FIRST
    assert take_block(two, shared) == FIRST + BLOCK
    assert (find_block(one), find_block(tmp_path)) == (FIRST, None)
    (one / "ids").rename(tmp_path / "kept")
    release_block(one, FIRST, shared)
    release_block(one, FIRST + BLOCK, shared)  # It is not its own.
    assert take_block(two, shared) == FIRST + BLOCK
    three = tmp_path / "three"
    three.mkdir()
    assert take_block(three, shared) == FIRST
    # The pod `one` comes back and says that it has the block, but no more: it gets another one.
    (tmp_path / "kept").rename(one / "ids")
    assert take_block(one, shared) == FIRST + 2 * BLOCK
    # A pod that vanished without a word holds nothing, and what was recorded for all may get lost.
    (two / "ids").unlink()
    two.rmdir()
    four = tmp_path / "four"
    four.mkdir()
    assert take_block(four, shared) == FIRST + BLOCK
    for file in shared.iterdir():
        file.unlink()
    assert take_block(four, shared) == FIRST + BLOCK


def test_there_are_only_so_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(identities, "BLOCKS", 2)
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    take_block(tmp_path / "a", tmp_path / "ids")
    take_block(tmp_path / "b", tmp_path / "ids")
    with pytest.raises(CannotRun, match="in use on this machine"):
        take_block(tmp_path / "c", tmp_path / "ids")


# The filter, by a small interpreter of BPF.

X86, ARM = 0xC000003E, 0xC00000B7
ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50001, 0x50026


def judge(program: bytes, architecture: int, number: int, flags: int = 0) -> int:
    data = struct.pack("<IIQ6Q", number, architecture, 0, flags, 0, 0, 0, 0, 0)
    at, value = 0, 0
    constant: int
    while True:
        code, if_true, if_false, constant = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                value = struct.unpack_from("<I", data, constant)[0]
            case 0x15:
                at += if_true if value == constant else if_false
            case 0x35:
                at += if_true if value >= constant else if_false
            case 0x45:
                at += if_true if value & constant else if_false
            case 0x06:
                return constant
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize(("machine", "architecture", "socket_call"), [("x86_64", X86, 41), ("aarch64", ARM, 198)])
def test_the_filter_refuses_sockets_to_the_host_and_to_the_cryptography_of_the_kernel(
    machine: str, architecture: int, socket_call: int
):
    program = seccomp.build_filter(machine)
    refused = [family for family in range(64) if judge(program, architecture, socket_call, family) == EPERM]
    assert refused == [38, 40]  # AF_ALG, AF_VSOCK
    assert judge(program, architecture, socket_call, 2) == ALLOW


@pytest.mark.parametrize(
    ("machine", "architecture", "column", "clone", "harmless"),
    [("x86_64", X86, 0, 56, (0, 1, 2, 57, 59, 101, 257)), ("aarch64", ARM, 1, 220, (56, 63, 64, 117, 221))],
)
def test_the_filter(machine: str, architecture: int, column: int, clone: int, harmless: tuple[int, ...]):
    program = seccomp.build_filter(machine)
    refused = [pair[column] for pair in seccomp._REFUSED.values() if pair[column] is not None]
    assert {judge(program, architecture, number) for number in refused if number is not None} == {EPERM}
    assert {judge(program, architecture, number) for number in harmless} == {ALLOW}
    assert judge(program, architecture, 435) == ENOSYS
    assert judge(program, architecture, clone, 0x1200011) == ALLOW  # As `fork` does it.
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert judge(program, architecture, clone, flag | 17) == EPERM
    assert judge(program, 0x40000003, 1) == ENOSYS
    assert judge(program, architecture, 0x40000000 | 1) == ENOSYS


def test_another_machine_has_no_filter():
    assert seccomp.build_filter("m68k") == b""
