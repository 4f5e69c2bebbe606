"""The program that test_storm.py kills: begins and ends containers in an endless hurry, until it is killed.

`python -m tests.agent.process.storm DIRECTORY SEED`. Each container writes one line into a file of its own when it is
started, then numbered lines to its log. Which attempts there are is known from the runner alone, as for a real agent.
"""

import asyncio
import os
import random
import sys
from datetime import timedelta
from pathlib import Path

from mainstay.agent.runner import ContainerId, ContainerSpec, Exited
from mainstay.agent.runners.process.runner import ProcessRunner
from mainstay.env import tasks
from tests.agent.process.machine import a_spec, outside

PODS = [f"pod-{number}" for number in range(4)]
ATTEMPTS_AT_ONCE = 3


def script() -> str:
    mark = "mnt/outside/$(basename $(dirname $MAINSTAY_ROOT))-$POD"
    return (
        f"echo x >> {mark}; trap 'echo end; exit 0' TERM; setsid sleep 1000 & "
        "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i; done; echo end; "
        "case $POD in pod-0) exit 0;; esac; while :; do sleep 0.05; done"
    )


def build_container_spec(directory: Path, container: ContainerId) -> ContainerSpec:
    env = (("PATH", "/usr/bin:/bin"), ("POD", container.pod_uid))
    return a_spec(script(), uid=container.pod_uid, attempt=container.attempt, env=env, mounts=outside(directory))


async def storm(directory: Path, seed: int) -> None:
    runner = ProcessRunner(directory)
    await runner.start()
    os.write(1, b"started\n")
    chance = random.Random(seed)
    await asyncio.gather(*(one_pod(runner, directory, pod, random.Random(chance.random())) for pod in PODS))


async def one_pod(runner: ProcessRunner, directory: Path, pod: str, chance: random.Random) -> None:
    await runner.place(pod, "default", pod, [])
    while True:
        states = runner.instances(pod)
        living = [key for key, state in states.items() if not isinstance(state, Exited)]
        if living and (len(living) >= ATTEMPTS_AT_ONCE or chance.random() < 0.5):
            await runner.end(chance.choice(living), timedelta(seconds=chance.choice([0, 60])))
        else:
            after = max((key.attempt for key in states), default=-1) + 1
            await runner.run(build_container_spec(directory, ContainerId(pod, "main", after)))
        await tasks.sleep(timedelta(milliseconds=chance.choice([0, 1, 30])))


if __name__ == "__main__":
    tasks.run(storm(Path(sys.argv[1]), int(sys.argv[2])))
