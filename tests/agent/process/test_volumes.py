"""Volumes on disk, and how containers see them."""

import os
from pathlib import Path

import pytest

from mainstay.agent.runner import CannotRun, ContainerId, Mount, VolumeFile, VolumePlan
from mainstay.agent.runners.process.volumes import place_volume as place
from tests.agent.process.machine import AT_ONCE, POD, a_runner, a_spec, as_root, exited, output, ran, running

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]


def files_of(**files: str) -> tuple[VolumeFile, ...]:
    return tuple(VolumeFile(path, text.encode()) for path, text in files.items())


def there(*paths: str) -> list[str]:
    return [path for path in paths if os.path.lexists(path)]


def mode_of(path: str) -> int:
    return Path(path).stat().st_mode & 0o777


async def test_a_pod_gets_its_volumes_and_loses_them(directory: Path):
    async with a_runner(directory) as runner:
        plans = [
            VolumePlan(name="scratch"),
            VolumePlan(name="memory", is_in_memory=True),
            VolumePlan(name="machine", host_path=str(directory)),
            VolumePlan(name="config", files=files_of(key="value")),
        ]
        pod = await runner.place(POD, "default", "web", plans)
        assert sorted(pod.volumes) == ["config", "machine", "memory", "scratch"]
        assert pod.volumes["machine"] == str(directory)
        for name in ("scratch", "memory"):
            assert mode_of(pod.volumes[name]) == 0o777
            (Path(pod.volumes[name]) / "mine").touch()
        assert await runner.place(POD, "default", "web", plans) == pod
        assert (Path(pod.volumes["scratch"]) / "mine").exists()
        assert runner.pods() == [POD]
        await runner.forget(POD)
        assert there(*pod.volumes.values()) == [str(directory)]


def test_files_are_replaced_all_at_once(directory: Path):
    plan = VolumePlan(name="config", files=(*files_of(a="1", b="2"), VolumeFile("deep/er/c", b"3", 0o400)))
    volume = Path(place(directory, plan))
    assert sorted(os.listdir(volume)) == ["..1", "..data", "a", "b", "deep"]
    assert (volume / "deep/er/c").read_text() == "3"
    assert (volume / "deep/er/c").stat().st_mode & 0o777 == 0o400
    held = os.open(volume / "..data", os.O_RDONLY)
    before = os.stat(volume / "..1").st_ino
    place(directory, plan)
    assert os.stat(volume / "..data/").st_ino == before  # Nothing has changed, so nothing was done.

    place(directory, VolumePlan(name="config", files=files_of(a="1", new="4")))
    assert sorted(os.listdir(volume)) == ["..2", "..data", "a", "new"]
    assert [(volume / name).read_text() for name in ("a", "new")] == ["1", "4"]
    assert os.readlink(volume / "a") == "..data/a"
    os.close(held)


def test_an_update_that_was_cut_short_is_made_again(directory: Path):
    volume = Path(place(directory, VolumePlan(name="config", files=files_of(a="1"))))
    (volume / "..2").mkdir()
    (volume / "..2" / "a").write_text("half")
    (volume / "..data_new").symlink_to("..2")
    place(directory, VolumePlan(name="config", files=files_of(a="2")))
    assert sorted(os.listdir(volume)) == ["..2", "..data", "a"]
    assert (volume / "a").read_text() == "2"


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "..data", ""])
def test_files_stay_inside_their_volume(directory: Path, path: str):
    with pytest.raises(CannotRun) as raised:
        place(directory, VolumePlan(name="config", files=files_of(**{path: "x"})))
    assert raised.value.reason == "FailedMount"


def test_paths_of_the_machine_are_checked(directory: Path):
    file, made = directory / "file", directory / "made" / "here"
    file.touch()
    (directory / "link").symlink_to(directory)
    for path, kind in (
        (directory, "Directory"),
        (directory / "link", "Directory"),
        (made, "DirectoryOrCreate"),
        (file, "File"),
        (directory / "new", "FileOrCreate"),
        (Path("/dev/null"), "CharDevice"),
        (directory / "absent", ""),
    ):
        assert place(directory, VolumePlan(name="v", host_path=str(path), host_path_type=kind)) == str(path)
    assert made.is_dir()
    for path, kind in (
        (file, "Directory"),
        (directory, "File"),
        (directory / "absent", "Directory"),
        (file, "DirectoryOrCreate"),
        (file, "Socket"),
        (file, "BlockDevice"),
    ):
        with pytest.raises(CannotRun, match=f"hostPath type check failed: {path} is not a "):
            place(directory, VolumePlan(name="v", host_path=str(path), host_path_type=kind))


async def test_mounts_are_found_below_the_directory_of_the_container(directory: Path):
    async with a_runner(directory) as runner:
        plans = [VolumePlan(name="scratch"), VolumePlan(name="config", files=files_of(key="value"))]
        pod = await runner.place(POD, "default", "web", plans)
        mounts = (
            Mount(pod.volumes["scratch"], "/data"),
            Mount(pod.volumes["config"], "/data/config"),
            Mount(pod.volumes["config"], "/no/such/file", sub_path="key"),
        )
        script = "echo x > $MAINSTAY_ROOT/data/x; cat $MAINSTAY_ROOT/data/config/key $MAINSTAY_ROOT/no/such/file; pwd"
        spec = a_spec(script, mounts=mounts, working_dir="/data")
        assert (await ran(runner, spec)).code == 0
        assert (await output(runner, spec.id)).startswith(b"valuevalue")
        assert (Path(pod.volumes["scratch"]) / "x").read_text() == "x\n"


@as_root
async def test_mounts_are_found_at_their_own_path_where_that_can_be(directory: Path):
    point = f"/run/mainstay-{directory.name}/deep"
    async with a_runner(directory) as runner:
        plans = [VolumePlan(name="scratch"), VolumePlan(name="config", files=files_of(key="value"))]
        pod = await runner.place(POD, "default", "web", plans)
        mounts = (
            Mount(pod.volumes["scratch"], point),
            Mount(pod.volumes["config"], "/mnt", is_read_only=True),
            Mount(pod.volumes["config"], "/etc/hostname", sub_path="key"),
        )
        script = f"cat /mnt/key /etc/hostname; echo; echo x > {point}/x; echo x > /mnt/key"
        spec = a_spec(script, mounts=mounts, user=1234)
        await ran(runner, spec)
        text = await output(runner, spec.id)
        assert text.startswith(b"valuevalue\n")
        assert b"ead-only" in text
        assert (Path(pod.volumes["scratch"]) / "x").read_text() == "x\n"
    assert there("/mnt/key", point) == []  # On the machine there is nothing of it.


@as_root
async def test_another_user_reaches_its_volumes_and_nothing_else_of_the_agents(directory: Path):
    closed = directory / "closed"
    closed.mkdir(mode=0o700)
    (closed / "key").touch(mode=0o644)
    async with a_runner(closed / "node") as runner:
        plans = [VolumePlan(name="scratch"), VolumePlan(name="config", files=files_of(key="value"))]
        pod = await runner.place(POD, "default", "web", plans)
        mounts = (Mount(pod.volumes["scratch"], "/data/scratch"), Mount(pod.volumes["config"], "/data/config"))
        script = f"cat $MAINSTAY_ROOT/data/config/key; echo x > data/scratch/x; test -e {closed}/key || echo hidden"
        spec = a_spec(script, mounts=mounts, user=1234)
        assert (await ran(runner, spec)).code == 0
        assert await output(runner, spec.id) == b"valuehidden\n"
        assert (Path(pod.volumes["scratch"]) / "x").read_text() == "x\n"

        await running(runner, a_spec("exec sleep 1000", attempt=1, mounts=mounts, user=1234))
        beside = await runner.execute(ContainerId(POD, "main", 1), ["sh", "-c", "cat $MAINSTAY_ROOT/data/config/key"])
        assert await beside.read() == (1, b"value")
        assert await beside.wait() == 0
        await beside.kill()
        await runner.end(ContainerId(POD, "main", 1), AT_ONCE)
        await exited(runner, ContainerId(POD, "main", 1))
    assert sorted(os.listdir(closed)) == ["key", "node"]


async def test_a_part_of_a_volume_is_made_when_it_is_mounted(directory: Path):
    async with a_runner(directory) as runner:
        plans = [VolumePlan(name="scratch"), VolumePlan(name="config", files=files_of(key="value"))]
        pod = await runner.place(POD, "default", "web", plans)
        spec = a_spec(
            "echo x > $MAINSTAY_ROOT/data/x", mounts=(Mount(pod.volumes["scratch"], "/data", sub_path="a/b"),)
        )
        assert (await ran(runner, spec)).code == 0
        assert (Path(pod.volumes["scratch"]) / "a/b/x").read_text() == "x\n"
        assert mode_of(pod.volumes["scratch"] + "/a") == 0o777

        absent = a_spec("true", attempt=1, mounts=(Mount(pod.volumes["config"], "/data", sub_path="absent"),))
        with pytest.raises(CannotRun, match='volume "config" has no absent'):
            await runner.run(absent)
        os.symlink("/etc", pod.volumes["scratch"] + "/out")
        for inside in ("out", "out/made", "../../.."):
            with pytest.raises(CannotRun, match="is outside volume"):
                mounts = (Mount(pod.volumes["scratch"], "/data", sub_path=inside),)
                await runner.run(a_spec("true", attempt=1, mounts=mounts))
        assert len(runner.instances(POD)) == 1


@as_root
def test_a_volume_can_belong_to_a_group(directory: Path):
    scratch = Path(place(directory, VolumePlan(name="scratch", group=4321)))
    assert (scratch.stat().st_gid, scratch.stat().st_mode & 0o7777) == (4321, 0o2777)
    plan = VolumePlan(name="secret", files=(VolumeFile("key", b"x", 0o400),), group=4321)
    secret = Path(place(directory, plan))
    found = (secret / "key").stat()
    assert (found.st_gid, found.st_mode & 0o777) == (4321, 0o440)
    before = os.readlink(secret / "..data")
    place(directory, plan)
    assert os.readlink(secret / "..data") == before
