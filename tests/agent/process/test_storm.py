"""An agent is killed at random moments, many times. Nothing is begun twice, lost, or left over."""

import asyncio
import random
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from mainstay.agent.runner import Exited, LogQuery
from mainstay.agent.runners.process.attempts import AttemptFiles
from mainstay.agent.runners.process.logs import read
from tests.agent.process.machine import a_runner, cgroups_of, exited, outside, processes_of
from tests.agent.process.storm import PODS

pytestmark = [pytest.mark.deep, pytest.mark.real_loop]

KILLS = 25
SEED = 6


async def test_a_storm_of_killed_agents(directory: Path):
    outside(directory)
    chance = random.Random(SEED)
    for round_ in range(KILLS):
        await one_life(directory, round_, chance)
    async with a_runner(directory) as runner:
        for pod in PODS:
            for container, state in runner.instances(pod).items():
                if not isinstance(state, Exited):
                    await runner.end(container, timedelta(seconds=60))
        ends = {container: await exited(runner, container) for pod in PODS for container in runner.instances(pod)}
        assert processes_of(directory) == []
        started = Counter({path.name: len(path.read_text().splitlines()) for path in (directory / "outside").iterdir()})
        assert set(started.values()) <= {0, 1}  # 0: killed when it had just opened the file.
        for container, end in ends.items():
            assert end.reason in ("Completed", "Error"), (container, end)
            log = AttemptFiles(directory / "pods" / container.pod_uid, container).log
            lines = await lines_of(log)
            numbers = [int(line) for line in lines if line != b"end\n"]
            assert numbers == list(range(1, len(numbers) + 1))
            if end.code == 0:  # It was let to say its last word.
                assert lines[-1] == b"end\n"
        known = {f"{container.attempt}-{container.pod_uid}" for container in ends}
        assert set(started) <= known
        assert len(known) > KILLS
        # Attempts are numbered without gaps, whatever was killed.
        for pod in PODS:
            assert [key.attempt for key in runner.instances(pod)] == list(range(len(runner.instances(pod))))
    assert cgroups_of(directory) == []


async def lines_of(log: Path) -> list[bytes]:
    return [line.text async for line in read(lambda: (log, lambda: True), LogQuery())]


async def one_life(directory: Path, seed: int, chance: random.Random) -> None:
    argv = [sys.executable, "-m", "tests.agent.process.storm", str(directory), str(seed)]
    root = Path(__file__).parents[3]
    agent = await asyncio.create_subprocess_exec(*argv, cwd=root, stdout=subprocess.PIPE)
    assert agent.stdout is not None
    # How long it lives is the point of this: from none of its steps to a few hundred; sometimes it does not come to the
    # end of looking at what is there.
    if chance.random() < 0.75:
        assert await agent.stdout.readline() == b"started\n"
        await asyncio.sleep(chance.choice([0.0, 0.02, 0.1, 0.3]) * chance.random() * 2)
    else:
        await asyncio.sleep(chance.random())
    assert agent.returncode is None
    agent.kill()
    await agent.wait()
