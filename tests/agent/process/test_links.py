"""C1 of the security review: no link that a container leaves leads root out of the pod."""

import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mainstay.agent.runner import CannotRun, Mount, NoSuchContainer, VolumePlan
from mainstay.agent.runners.process import beneath
from tests.agent.process.machine import POD, a_runner, a_spec, as_root, output, ran

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]

SECRET = "the private key of the cluster"


@pytest.fixture
def secret(directory: Path) -> Path:
    path = directory / "ca.key"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


# What a container leaves at its `dev/termination-log`, with {secret} outside of the pod.
TRICKS = {
    "a link": "ln -s {secret} dev/termination-log",
    "a hard link": "ln {secret} dev/termination-log",
    "a dangling link": "ln -s {secret}.new dev/termination-log",
    "a link to a directory": "ln -s $(dirname {secret}) dev/termination-log",
    "a directory": "mkdir dev/termination-log",
    "a FIFO": "mkfifo dev/termination-log",
    "a socket of a device": "ln -s /dev/zero dev/termination-log",
    "dot dot": "ln -s ../../../../../../../ca.key dev/termination-log",
}


@as_root
@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
async def test_the_last_message_is_not_read_from_what_a_container_puts_in_its_place(
    directory: Path, secret: Path, trick: str
):
    async with a_runner(directory) as runner:
        leave = trick.format(secret=secret)
        script = f"cd $MAINSTAY_ROOT; mv dev dev2; mkdir dev; {leave}; exit 3"
        end = await ran(runner, a_spec(script, user=4321))
        assert SECRET not in end.message
        assert end.message == ""
    assert "ca.key.new" not in os.listdir(directory)


@as_root
async def test_a_dangling_link_at_the_place_of_the_message_makes_no_file(directory: Path):
    """The second reproduction: an init container leaves a link in a volume, the next one has its message there."""
    wanted = directory / "made-by-root"
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="t")])
        mounts = (Mount(place.volumes["t"], "/mnt/t"),)
        await ran(runner, a_spec(f"ln -s {wanted} $MAINSTAY_ROOT/mnt/t/msg", name="init", user=4321, mounts=mounts))
        assert os.readlink(f"{place.volumes['t']}/msg") == str(wanted)
        main = a_spec(f"echo x > {wanted}; exit 3", user=4321, mounts=mounts, message_path="/mnt/t/msg")
        end = await ran(runner, main)
        assert end.code != 0
        assert not wanted.exists()
        # Without the link it is where it was asked for.
        os.unlink(f"{place.volumes['t']}/msg")
        script = "printf bye > /mnt/t/msg; exit 3"
        end = await ran(runner, a_spec(script, attempt=1, user=4321, mounts=mounts, message_path="/mnt/t/msg"))
        assert end.message == "bye"


async def test_a_message_has_a_limit_and_is_the_end_of_what_was_written(directory: Path):
    async with a_runner(directory) as runner:
        script = (
            "cd dev; head -c 100000 /dev/zero | tr '\\0' a > termination-log; printf end >> termination-log; exit 1"
        )
        end = await ran(runner, a_spec(script))
        assert len(end.message) == 4096
        assert end.message.endswith("aaaend")


@as_root
async def test_a_mount_inside_a_volume_goes_through_no_link(directory: Path):
    target = directory / "elsewhere"
    target.mkdir()
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="t"), VolumePlan(name="inner")])
        os.symlink(target, f"{place.volumes['t']}/sub")
        mounts = (Mount(place.volumes["t"], "/mnt/t"), Mount(place.volumes["inner"], "/mnt/t/sub/deep"))
        await ran(runner, a_spec("true", user=4321, mounts=mounts))
    assert os.listdir(target) == []


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda volume: (volume / "sub").symlink_to(target)


def _nested(volume: Path) -> None:
    (volume / "a").symlink_to("/etc")
    (volume / "sub").symlink_to("a")


@as_root
@pytest.mark.parametrize("path", ["/", "//", "/.", "/../", "/proc", "/proc/self/root", "/proc/1/cwd", "/sys", "/dev"])
async def test_no_volume_covers_what_the_sandbox_is_made_of(directory: Path, path: str):
    """A volume at `/` left the machine's root on top: a pod saw the whole machine."""
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="t")])
        spec = a_spec("cat /proc/1/cmdline; ls /", mounts=(Mount(place.volumes["t"], path),))
        end = await ran(runner, spec)
        assert (end.code, end.reason) == (128, "StartError")
        assert "a volume may not cover" in end.message
        assert await output(runner, spec.id) == b""


LEAD_OUT = {
    "an absolute link": _link_to("/etc"),
    "a relative link": _link_to("../../../../.."),
    "a dangling link": _link_to("/no/such/place"),
    "a link to a link": _nested,
    "a link through proc": _link_to("/proc/self/root/etc"),
}


@pytest.mark.parametrize("make", LEAD_OUT.values(), ids=LEAD_OUT.keys())
@pytest.mark.parametrize("is_host_path", [False, True])
async def test_a_sub_path_stays_in_its_volume(directory: Path, make: Callable[[Path], None], is_host_path: bool):
    of_machine = directory / "of-machine"
    of_machine.mkdir()
    async with a_runner(directory) as runner:
        plan = VolumePlan(name="t", host_path=str(of_machine)) if is_host_path else VolumePlan(name="t")
        place = await runner.place(POD, "default", "web", [plan])
        make(Path(place.volumes["t"]))
        for below in ("sub", "sub/deeper", "sub/.."):
            with pytest.raises(CannotRun) as raised:
                await runner.run(a_spec("true", mounts=(Mount(place.volumes["t"], "/data", sub_path=below),)))
            assert raised.value.reason == "CreateContainerConfigError"
    assert "no" not in os.listdir("/")


async def test_a_link_that_stays_inside_is_followed(directory: Path):
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="t")])
        volume = Path(place.volumes["t"])
        (volume / "real").mkdir()
        (volume / "real" / "file").write_text("inside")
        (volume / "sub").symlink_to("real")
        spec = a_spec("cat $MAINSTAY_ROOT/data/file", mounts=(Mount(place.volumes["t"], "/data", sub_path="sub"),))
        await ran(runner, spec)
        assert await output(runner, spec.id) == b"inside"


@pytest.mark.parametrize("opened", [beneath.open_beneath, beneath.walk_beneath])
def test_both_ways_of_opening_refuse_the_same(directory: Path, opened: Callable[..., int]):
    (directory / "in").mkdir()
    (directory / "in" / "file").write_text("x")
    (directory / "in" / "link").symlink_to("file")
    (directory / "in" / "out").symlink_to("../secret")
    (directory / "in" / "root").symlink_to("/")
    (directory / "secret").write_text(SECRET)
    held = beneath.open_directory(str(directory / "in"))
    try:
        descriptor = opened(held, "file", os.O_RDONLY)
        assert os.read(descriptor, 10) == b"x"
        os.close(descriptor)
        os.close(opened(held, "link", os.O_RDONLY, has_links=True))
        for path, has_links in (
            ("link", False),
            ("out", True),
            ("root/etc", True),
            ("../secret", True),
            ("/etc/passwd", True),
            ("../in/file", False),
        ):
            with pytest.raises(OSError, match=r"\[Errno (18|20|40)\]"):
                opened(held, path, os.O_RDONLY, has_links=has_links)
    finally:
        os.close(held)


def test_a_directory_that_is_swapped_while_it_is_read_does_not_lead_out(directory: Path):
    """By hand, as a race would have it: held open, then replaced by a link."""
    (directory / "in" / "sub").mkdir(parents=True)
    (directory / "out").mkdir()
    (directory / "out" / "file").write_text(SECRET)
    held = beneath.open_directory(str(directory / "in"))
    sub = beneath.open_beneath(held, "sub")
    (directory / "in" / "sub").rename(directory / "in" / "was")
    (directory / "in" / "sub").symlink_to(directory / "out")
    with pytest.raises(FileNotFoundError):
        beneath.open_beneath(sub, "file")
    with pytest.raises(OSError, match=r"\[Errno (18|20|40)\]"):
        beneath.open_beneath(held, "sub/file")
    with pytest.raises(OSError, match=r"\[Errno (18|20|40)\]"):
        beneath.make_directories(held, "sub/new")
    assert sorted(os.listdir(directory / "out")) == ["file"]
    os.close(sub)
    os.close(held)


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
async def test_a_log_that_was_replaced_is_not_read(directory: Path, secret: Path, kind: str):
    async with a_runner(directory) as runner:
        spec = a_spec("echo said; exit 1", is_message_from_log=True)
        assert (await ran(runner, spec)).message == "said\n"
        log = directory / "pods" / POD / "logs" / "main" / "0.log"
        log.unlink()
        if kind == "link":
            log.symlink_to(secret)
        elif kind == "fifo":
            os.mkfifo(log)
        else:
            log.mkdir()
        with pytest.raises((OSError, NoSuchContainer)):
            await output(runner, spec.id)


def test_removing_follows_no_links_and_opens_what_is_closed(directory: Path):
    kept = directory / "kept"
    kept.mkdir()
    (kept / "file").touch()
    tree = directory / "tree"
    (tree / "closed").mkdir(parents=True)
    (tree / "closed" / "file").touch()
    (tree / "closed").chmod(0)
    (tree / "link").symlink_to(kept)
    (tree / "dangling").symlink_to("nowhere")
    os.mkfifo(tree / "fifo")
    os.link(kept / "file", tree / "hard")
    assert beneath.remove_tree(str(tree))
    assert not tree.exists()
    assert os.listdir(kept) == ["file"]
    link = directory / "link"
    link.symlink_to(kept)
    assert beneath.remove_tree(str(link))
    assert os.listdir(kept) == ["file"]


def test_removing_a_very_deep_tree(directory: Path):
    """Deeper than Python recurses, and than a process has descriptors."""
    tree = directory / "tree"
    tree.mkdir()
    at = os.open(tree, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    assert beneath.remove_tree(str(tree))
    assert not tree.exists()


@as_root
def test_removing_stops_at_another_file_system(directory: Path):
    tree = directory / "tree"
    (tree / "mounted").mkdir(parents=True)
    script = (
        f"mount -t tmpfs none {tree}/mounted && touch {tree}/mounted/file && "
        f"python3 -c \"import sys; sys.path.append('.'); "
        f"from mainstay.agent.runners.process.beneath import remove_tree; print(remove_tree('{tree}'))\" && "
        f"ls {tree}/mounted"
    )
    root = Path(__file__).parents[3]
    argv = ["unshare", "--mount", "sh", "-ec", script]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=root, check=False)
    assert (done.stdout, done.returncode) == ("False\nfile\n", 0), done.stderr


async def test_a_volume_in_memory_is_not_put_where_another_user_wants_it(
    directory: Path, monkeypatch: pytest.MonkeyPatch
):
    shared = directory / "shm"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr("mainstay.agent.runners.process.volumes._MEMORY", shared)
    victim = directory / "victim"
    victim.mkdir(mode=0o755)
    async with a_runner(directory) as runner:
        place = await runner.place(POD, "default", "web", [VolumePlan(name="m", is_in_memory=True)])
        at = Path(place.volumes["m"]).parent
        await runner.forget(POD)
        at.symlink_to(victim)
        with pytest.raises(CannotRun, match="is a link"):
            await runner.place(POD, "default", "web", [VolumePlan(name="m", is_in_memory=True)])
    assert os.listdir(victim) == []
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755
