"""C4 of the security review, and attempts to escape: what a container can do to the machine and to other pods."""

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mainstay.agent.runner import CannotRun, ContainerId, Mount, Running, SecurityOptions, VolumeFile, VolumePlan
from mainstay.agent.runners.process.identities import DEFAULT, FIRST, find_on_machine, take_block
from mainstay.agent.runners.process.isolation import find_hidden, find_isolation
from mainstay.agent.runners.process.runner import ProcessRunner
from tests.agent.process.agent_program import an_agent, kill
from tests.agent.process.machine import (
    A_MOMENT,
    AT_ONCE,
    POD,
    a_runner,
    a_spec,
    as_root,
    exited,
    output,
    outside,
    processes_of,
    ran,
    ready,
    running,
    soon,
)

pytestmark = [pytest.mark.slow, pytest.mark.real_loop, as_root]

OTHER = "6e5f1a52-0000-4000-8000-000000000002"
MIB = 1024 * 1024

# What a test asks of Python in a container: `attempt` says how a call failed, or that it did not.
PRELUDE = """
import ctypes, errno, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, call):
    try:
        found = call()
        print(name, "done" if found is None else found)
    except OSError as error:
        print(name, errno.errorcode[error.errno])
def libc_call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
"""


async def said(runner: ProcessRunner, script: str, *, attempt: int = 0, **more: object) -> str:
    spec = a_spec(script, attempt=attempt, **more)  # type: ignore[arg-type]
    end = await ran(runner, spec)
    assert end.reason != "StartError", end
    return (await output(runner, spec.id)).decode()


async def python_said(runner: ProcessRunner, script: str, **more: object) -> dict[str, str]:
    spec = a_spec("", command=(sys.executable, "-I", "-S", "-c", PRELUDE + script), **more)  # type: ignore[arg-type]
    end = await ran(runner, spec)
    text = (await output(runner, spec.id)).decode()
    assert end.code == 0, (end, text)
    return dict(line.split(" ", 1) for line in text.splitlines())


STATUS = "grep -E '^(Uid|Gid|CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t' ' '"


async def test_by_default_a_container_is_a_user_of_its_own_with_one_right(directory: Path):
    async with a_runner(directory) as runner:
        text = await said(runner, STATUS)
        own = take_block(directory / "pods" / POD) + DEFAULT
        assert text.splitlines() == [
            f"Uid: {own} {own} {own} {own}",
            f"Gid: {own} {own} {own} {own}",
            "CapPrm: 0000000000000400",
            "CapEff: 0000000000000400",
            "CapBnd: 0000000000000400",
            "CapAmb: 0000000000000400",
            "NoNewPrivs: 1",
            "Seccomp: 2",
        ]


async def test_the_data_directory_other_pods_and_homes_are_not_there(directory: Path):
    """The reproduction of C4, `cat D/kubeconfig`, and its relatives."""
    cluster = directory / "cluster"
    cluster.mkdir(mode=0o755)  # Even if its permissions were open.
    (cluster / "kubeconfig").write_text("administrator")
    (cluster / "kubeconfig").chmod(0o644)
    node = cluster / "nodes" / "a"
    node.mkdir(parents=True)
    cluster.chmod(0o700)
    async with a_runner(node) as runner:
        await runner.place(OTHER, "default", "other", [VolumePlan(name="v")])
        await running(runner, a_spec("echo mine > file; exec sleep 1000", uid=OTHER))
        text = await said(
            runner,
            f"cat {cluster}/kubeconfig; ls -A {cluster} {cluster}/nodes/a {cluster}/nodes/a/pods /home /mnt /media; "
            f"cat {node}/pods/{OTHER}/containers/main/0/root/file; ls -A /root/.kube /root/.ssh; ls /tmp /var/tmp",
        )
        assert "administrator" not in text
        assert "mine" not in text
        assert OTHER not in text.replace(f"pods/{OTHER}/containers", "")
        await runner.end(ContainerId(OTHER, "main", 0), AT_ONCE)
        await exited(runner, ContainerId(OTHER, "main", 0))


async def test_what_is_shown_of_a_hidden_place_does_not_show_what_is_hidden_in_it(directory: Path):
    """The interpreter of the agent, in a home, and the cluster's directory beside it."""
    prefix, data = directory / "prefix", directory / "prefix" / "data"
    (data / "node").mkdir(parents=True)
    (prefix / "tool").write_text("tool")
    (data / "key").write_text("private")
    machine = replace(find_isolation(data / "node"), hidden=(str(data),), shown=(str(prefix),))
    runner = ProcessRunner(data / "node", machine)
    await runner.start()
    try:
        text = await said(runner, f"cat {prefix}/tool; cat {data}/key; touch {prefix}/x; pwd; touch here")
        assert "tool" in text
        assert "private" not in text
        assert "ead-only" in text
        assert f"{data}/node/pods/{POD}/containers/main/0/root\n" in text
    finally:
        await runner.stop()


def test_hidden_places_are_named_without_links(tmp_path: Path):
    (tmp_path / "real" / "node").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    assert all(path == os.path.realpath(path) for path in find_hidden(tmp_path / "link" / "node"))


async def test_a_container_sees_only_its_own_processes_and_cannot_touch_others(directory: Path):
    async with a_runner(directory) as runner:
        other = await running(runner, a_spec("exec sleep 1000", uid=OTHER))
        found = await python_said(
            runner,
            f"""
print("processes", sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
attempt("root", lambda: os.listdir("/proc/{other.pid}/root"))
attempt("kill", lambda: os.kill({other.pid}, 9))
attempt("kill-agent", lambda: os.kill({os.getpid()}, 9))
attempt("ptrace", lambda: libc_call("ptrace", 16, {other.pid}, 0, 0))
attempt("ptrace-init", lambda: libc_call("ptrace", 16, 1, 0, 0))
attempt("init-root", lambda: os.listdir("/proc/1/root"))
attempt("init-memory", lambda: os.open("/proc/1/mem", os.O_RDWR))
attempt("kill-init", lambda: os.kill(1, 9))
""",
        )
        assert found == {
            "processes": "[1, 2]",
            "root": "ENOENT",
            "kill": "ESRCH",
            "kill-agent": "ESRCH",
            "ptrace": "ESRCH",
            "ptrace-init": "EPERM",
            "init-root": "EACCES",
            "init-memory": "EACCES",
            "kill-init": "EPERM",
        }
        assert isinstance(runner.instances(OTHER)[ContainerId(OTHER, "main", 0)], Running)


ESCAPES = """
CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x20000
attempt("mount", lambda: libc_call("mount", b"none", b"/mnt", b"tmpfs", 0, None))
attempt("umount", lambda: libc_call("umount2", b"/proc", 2))
attempt("remount", lambda: libc_call("mount", b"none", b"/usr", None, 0x1020, None))
attempt("unshare-users", lambda: libc_call("unshare", CLONE_NEWUSER))
attempt("unshare-mounts", lambda: libc_call("unshare", CLONE_NEWNS))
attempt("clone-users", lambda: libc_call("syscall", 56, CLONE_NEWUSER | 17, 0, 0, 0, 0))
attempt("clone3", lambda: libc_call("syscall", 435, 0, 0))
attempt("setns", lambda: libc_call("setns", os.open("/proc/self/ns/mnt", 0), 0))
attempt("bpf", lambda: libc_call("syscall", 321, 0, 0, 0))
attempt("keyctl", lambda: libc_call("syscall", 250, 0, 0, 0))
attempt("reboot", lambda: libc_call("syscall", 169, 0, 0, 0, 0))
attempt("settime", lambda: libc_call("syscall", 164, None, None))
attempt("hostname", lambda: libc_call("sethostname", b"x", 1))
attempt("sysctl", lambda: os.open("/proc/sys/kernel/hostname", os.O_WRONLY))
attempt("sysrq", lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY))
attempt("cgroup", lambda: os.mkdir("/sys/fs/cgroup/memory/escape"))
attempt("etc", lambda: os.open("/etc/escape", os.O_WRONLY | os.O_CREAT))
attempt("passwd", lambda: os.open("/etc/passwd", os.O_WRONLY))
attempt("shadow", lambda: os.open("/etc/shadow", os.O_RDONLY))
attempt("disk", lambda: [name for name in os.listdir("/dev") if name[:2] in ("vd", "sd", "nv", "lo", "me")])
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls by number, which are others on other machines")
@pytest.mark.parametrize("user", [None, 0, 1000])
async def test_no_way_out(directory: Path, user: int | None):
    more = 'attempt("mknod", lambda: os.mknod("disk", 0o60666, os.makedev(254, 0)))\n'
    if user != 0:
        more += 'attempt("setuid", lambda: os.setuid(0))\nattempt("chroot", lambda: os.chroot("/usr"))\n'
    async with a_runner(directory) as runner:
        found = await python_said(runner, ESCAPES + more, user=user)
        assert found.pop("disk") == "[]"
        assert found.pop("clone3") == "ENOSYS"
        assert found.pop("sysrq") in ("EACCES", "ENOENT")
        assert found.pop("etc") in ("EROFS", "EACCES")
        assert found.pop("passwd") in ("EROFS", "EACCES")
        assert found.pop("cgroup") in ("EROFS", "EACCES", "ENOENT")
        refused = {name: code for name, code in found.items() if code not in ("EPERM", "EACCES", "EROFS")}
        assert refused == {}


async def test_root_of_a_user_namespace_has_no_rights_outside_and_chroot_leads_nowhere(directory: Path):
    async with a_runner(directory) as runner:
        script = """
os.mkdir("jail")
held = os.open("/", os.O_RDONLY)
os.chroot("jail")
os.fchdir(held)
for _ in range(20):
    os.chdir("..")
os.chroot(".")
attempt("home", lambda: sorted(os.listdir("/root"))[:1] if "tests" in os.listdir("/root") else "hidden")
attempt("shadow", lambda: os.open("/etc/shadow", os.O_RDONLY))
attempt("agent", lambda: os.listdir("%s"))
""" % (directory / "pods" / POD / "containers" / "main")
        found = await python_said(runner, script, user=0)
        assert found == {"home": "hidden", "shadow": "EACCES", "agent": "['0']"}
        assert (await said(runner, "id -u; cat /proc/self/uid_map | tr -s ' '; touch mine", attempt=1, user=0)) == (
            f"0\n 0 {take_block(directory / 'pods' / POD)} 65536\n"
        )
        made = directory / "pods" / POD / "containers/main/1/root/mine"
        assert os.stat(made).st_uid == take_block(directory / "pods" / POD)


async def test_a_setuid_program_gives_nothing(directory: Path):
    program = outside(directory)[0].source + "/id"
    shutil.copy("/usr/bin/id", program)
    os.chmod(program, 0o4755)
    async with a_runner(directory) as runner:
        text = await said(runner, "mnt/outside/id -u", mounts=outside(directory))
        assert int(text) == take_block(directory / "pods" / POD) + DEFAULT


async def test_a_named_user_is_not_the_machines(directory: Path):
    """Files of a real user 1234, and of a real group 42, are closed to a pod that only has the numbers."""
    shared = outside(directory)
    for name, user, group, mode in (("user", 1234, 0, 0o600), ("group", 0, 42, 0o640)):
        path = Path(shared[0].source) / name
        path.write_text("private")
        os.chown(path, user, group)
        path.chmod(mode)
    async with a_runner(directory) as runner:
        text = await said(
            runner,
            "id -u; id -g; id -G; cat /mnt/outside/user; cat /mnt/outside/group; touch /mnt/outside/made",
            user=1234,
            group=42,
            groups=(42, 43),
            mounts=shared,
        )
        assert text.splitlines()[:3] == ["1234", "42", "42 43"]
        assert "private" not in text
        block = take_block(directory / "pods" / POD)
        made = os.stat(shared[0].source + "/made")
        assert (made.st_uid, made.st_gid) == (block + 1234, block + 42)


async def test_two_pods_have_different_users_and_keep_them_over_a_restart(directory: Path):
    async with a_runner(directory) as runner:
        first = await said(runner, "id -u")
        await ran(runner, a_spec("true", uid=OTHER))
    async with a_runner(directory) as runner:
        assert await said(runner, "id -u", attempt=1) == first
        other = a_spec("id -u", uid=OTHER, attempt=1)
        await ran(runner, other)
        log = (directory / "pods" / OTHER / "logs/main/1.log").read_text()
        assert log.split()[-1] != first.strip()
        await runner.forget(POD)
        await runner.forget(OTHER)
    assert int(first) >= FIRST


async def test_port_80_works_unless_the_right_is_dropped(directory: Path):
    bind = """
listener = socket.socket()
attempt("bind", lambda: listener.bind(("127.98.7.6", 80)))
"""
    dropped = SecurityOptions(capabilities_dropped=("ALL",))
    async with a_runner(directory) as runner:
        assert await python_said(runner, bind) == {"bind": "done"}
        assert await python_said(runner, bind, attempt=1, security=dropped) == {"bind": "EACCES"}


async def test_a_read_only_root_leaves_volumes_writable(directory: Path):
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="v")])
        script = (
            "for path in . /tmp /run /var/tmp / /dev /data /dev/shm; do "
            "touch $path/x 2>/dev/null && echo $path; done; printf bye > /dev/termination-log; exit 1"
        )
        mounts = (Mount(place.volumes["v"], "/data"),)
        spec = a_spec(script, mounts=mounts, security=SecurityOptions(is_read_only=True))
        end = await ran(runner, spec)
        assert end.message == "bye"
        assert await output(runner, spec.id) == b"/data\n/dev/shm\n"
        assert await said(runner, script, attempt=1, mounts=mounts) == ".\n/tmp\n/run\n/var/tmp\n/data\n/dev/shm\n"


async def test_files_of_the_api_can_be_read_whatever_their_mode(directory: Path):
    async with a_runner(directory) as runner:
        plan = VolumePlan(name="keys", files=(VolumeFile("key", b"value", 0o400),))
        place = await runner.place(POD, "default", "web", [plan])
        mounts = (Mount(place.volumes["keys"], "/keys", is_read_only=True),)
        assert await said(runner, "cat /keys/key", mounts=mounts) == "value"
        assert await said(runner, "cat /keys/key", attempt=1, mounts=mounts, user=0) == "value"
        assert "denied" in await said(runner, "cat /keys/key", attempt=2, mounts=mounts, user=1000)
        assert "ead-only" in await said(runner, "echo x > /keys/x", attempt=3, mounts=mounts, user=0)


async def test_a_volume_of_a_group_can_be_written_by_its_members(directory: Path):
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="v", group=3000)])
        mounts = (Mount(place.volumes["v"], "/data"),)
        text = await said(runner, "stat -c %g /data; touch /data/x; stat -c %g /data/x", mounts=mounts, groups=(3000,))
        assert text == "3000\n3000\n"
        on_machine = find_on_machine(take_block(directory / "pods" / POD), 3000)
        assert os.stat(place.volumes["v"] + "/x").st_gid == on_machine


async def test_streams_can_be_opened_by_name(directory: Path):
    async with a_runner(directory) as runner:
        assert await said(runner, "echo out > /dev/stdout; echo err > /dev/stderr") == "out\nerr\n"
        assert await said(runner, "echo out > /dev/stdout", attempt=1, user=1000) == "out\n"


async def test_zombies_are_removed_and_signals_are_heard(directory: Path):
    async with a_runner(directory) as runner:
        script = "(sh -c 'sleep 0.01 &'); sleep 0.2; echo; ps -eo stat= | grep -c Z; exec sleep 1000"
        await ready(runner, a_spec(script))
        await soon(lambda: (directory / "pods" / POD / "logs/main/0.log").read_text().splitlines()[-1].endswith(" 0"))
        await runner.end(a_spec("").id, A_MOMENT)
        assert (await exited(runner, a_spec("").id)).signal == 15  # Not killed: it had no handler, and heard it.


async def test_a_restart_of_the_agent_keeps_the_container_and_its_isolation(directory: Path):
    kill(an_agent(directory, specs=[{"script": "echo mine > /tmp/file; exec sleep 1000", "user": 1000}]))
    async with a_runner(directory) as runner:
        script = f"id -u; cat /tmp/file; ls /proc | grep -c ^[0-9]; {STATUS}"
        session = await runner.execute(a_spec("").id, ["sh", "-c", script])
        text = b""
        while (part := await session.read()) is not None:
            text += part[1]
        assert await session.wait() == 0
        lines = text.decode().splitlines()
        assert lines[:2] == ["1000", "mine"]
        assert int(lines[2]) < 10
        assert "NoNewPrivs: 1" in lines
        assert "Seccomp: 2" in lines
        assert "CapEff: 0000000000000000" in lines
        await runner.end(a_spec("").id, AT_ONCE)
        await exited(runner, a_spec("").id)
    assert processes_of(directory) == []


async def test_ipc_is_the_containers_own_unless_it_asks_for_the_hosts(directory: Path):
    async with a_runner(directory) as runner:
        link = "readlink /proc/self/ns/ipc"
        assert (await said(runner, link)).strip() != os.readlink("/proc/self/ns/ipc")
        host = SecurityOptions(has_host_ipc=True, has_host_pids=True)
        text = await said(runner, f"{link}; ls /proc | grep -c '^[0-9]'", attempt=1, security=host)
        assert text.splitlines()[0] == os.readlink("/proc/self/ns/ipc")
        assert int(text.splitlines()[1]) > 10
    assert processes_of(directory) == []


async def test_a_privileged_container_is_root_and_its_mistakes_do_not_change_the_machine(directory: Path):
    async with a_runner(directory) as runner:
        options = SecurityOptions(is_privileged=True)
        text = await said(runner, f"id -u; {STATUS}; touch /etc/mistake", security=options)
        assert text.startswith("0\nUid: 0 0 0 0\n")
        assert "Seccomp: 0" in text
        assert "ead-only" in text


async def test_without_namespaces_a_container_is_kept_from_the_machine_by_its_user(directory: Path):
    """B5: `cat DATA/ca.key`, as root of a machine, or of a container of one, that may not make namespaces."""
    machine = replace(find_isolation(directory), has_namespaces=False, has_users=False, why="Operation not permitted")
    (directory / "ca.key").write_text("private")
    (directory / "ca.key").chmod(0o600)
    runner = ProcessRunner(directory, machine)
    await runner.start()
    try:
        files = (VolumeFile("key", b"from the API", 0o400),)
        volumes = [VolumePlan(name="s", files=files), VolumePlan(name="m", is_in_memory=True)]
        places = {uid: await runner.place(uid, "default", "web", volumes) for uid in (POD, OTHER)}
        own, other = places[POD].volumes, places[OTHER].volumes
        await running(
            runner,
            a_spec(
                "echo theirs > file; echo theirs > mem/file; exec sleep 1000",
                uid=OTHER,
                mounts=(Mount(other["m"], "/mem"),),
            ),
        )
        text = await said(
            runner,
            f"{STATUS}; echo here > of-mine; cat of-mine $MAINSTAY_ROOT/etc/s/key; echo too > mem/a; cat mem/a; "
            f"cat {directory}/ca.key /etc/shadow {other['s']}/key {other['m']}/file "
            f"{places[OTHER].directory}/containers/main/0/root/file; kill -9 {os.getpid()}",
            mounts=(Mount(own["s"], "/etc/s"), Mount(own["m"], "/mem")),
        )
        user = take_block(directory / "pods" / POD) + DEFAULT
        assert f"Uid: {user} {user} {user} {user}" in text
        for line in ("CapEff: 0000000000000400", "CapBnd: 0000000000000400", "NoNewPrivs: 1", "Seccomp: 2"):
            assert line in text
        assert "here\nfrom the APItoo\n" in text
        assert "private" not in text
        assert "theirs" not in text
        assert text.count("ermission denied") == 5, text
        for attempt, wish in enumerate(({"user": 0}, {"security": SecurityOptions(is_read_only=True)}), 1):
            with pytest.raises(CannotRun, match="needs namespaces, which this node does not have") as raised:
                await runner.run(a_spec("true", attempt=attempt, **wish))  # type: ignore[arg-type]
            assert raised.value.reason == "CreateContainerConfigError"
        os.chmod(directory, 0o700)
        with pytest.raises(CannotRun, match=f"chmod o\\+x {directory}"):
            await runner.run(a_spec("true", attempt=3, mounts=(Mount(own["s"], "/etc/s"),)))
        os.chmod(directory, 0o755)
        await runner.end(ContainerId(OTHER, "main", 0), AT_ONCE)
        await exited(runner, ContainerId(OTHER, "main", 0))
        for uid in (POD, OTHER):
            await runner.forget(uid)
    finally:
        await runner.stop()


@pytest.mark.parametrize("user", [None, 0, 4321])
async def test_an_agent_that_is_no_root_isolates_by_user_namespaces(directory: Path, user: int | None):
    os.chown(directory, 65534, 65534)
    caps = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *caps]
    (directory / "outside").mkdir()
    os.chown(directory / "outside", 65534, 65534)
    script = f"id -u; ls /proc | grep -c ^[0-9]; ls {directory}; {STATUS}; touch mnt/outside/made; exec sleep 1000"
    agent = an_agent(directory, unprivileged, specs=[{"script": script, "user": user}])
    await soon((directory / "outside" / "made").exists)
    kill(agent)
    log = (directory / "pods" / POD / "logs/main/0.log").read_text()
    lines = [line.split(" ", 3)[3] for line in log.splitlines()]
    assert lines[0] == str(65534 if user is None else user)
    assert int(lines[1]) < 10
    assert lines[2] == "pods"
    assert "NoNewPrivs: 1" in lines
    assert "Seccomp: 2" in lines
    assert os.stat(directory / "outside" / "made").st_uid == 65534
    async with a_runner(directory) as runner:
        await runner.end(a_spec("").id, AT_ONCE)
        await exited(runner, a_spec("").id)
    assert processes_of(directory) == []


async def test_a_fork_bomb_is_limited(directory: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.agent.runners.process.cgroups._PROCESSES_MAX", 50)
    async with a_runner(directory) as runner:
        if runner.limits_note:
            pytest.skip(runner.limits_note)
        found = await python_said(
            runner,
            """
def many():
    for number in range(1000):
        if os.fork() == 0:
            signal.pause()
attempt("fork", many)
""",
        )
        assert found == {"fork": "EAGAIN"}
    assert processes_of(directory) == []


@pytest.mark.parametrize("user", [None, 0, 1000])
async def test_a_token_is_where_clients_look_for_it(directory: Path, user: int | None):
    """/var/run is a link to /run, which is the container's own."""
    async with a_runner(directory) as runner:
        plan = VolumePlan(name="access", files=(VolumeFile("token", b"secret"), VolumeFile("ca.crt", b"authority")))
        place = await runner.place(POD, "default", "web", [plan])
        where = "/var/run/secrets/kubernetes.io/serviceaccount"
        mounts = (Mount(place.volumes["access"], where, is_read_only=True),)
        text = await said(runner, f"cat {where}/token {where}/ca.crt", mounts=mounts, user=user)
        assert text == "secretauthority"


def test_older_kernels_restrict_mounts_one_by_one(directory: Path):
    """Without `mount_setattr`."""
    for name in ("source/inner", "target"):
        (directory / name).mkdir(parents=True)
    script = f"""
import os
from mainstay.agent.runners.process import kernel
kernel._MOUNT_SETATTR = 100_000  # There is no such call.
kernel.unshare(kernel.NEW_MOUNTS)
kernel.keep_mounts_to_oneself()
kernel.mount_memory("{directory}/source/inner", "size=64k")
kernel.bind("{directory}/source", "{directory}/target")
kernel.restrict("{directory}/target", kernel.READ_ONLY | kernel.NO_SETUID, is_recursive=True)
for path in ("target", "target/inner", "source", "source/inner"):
    print(path, bool(os.statvfs("{directory}/" + path).f_flag & os.ST_RDONLY))
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=False)
    assert done.stdout.splitlines() == ["target True", "target/inner True", "source False", "source/inner False"], (
        done.stderr
    )
