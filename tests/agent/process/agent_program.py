"""An agent-like program of its own, to be killed: `python -m tests.agent.process.agent_program DIRECTORY PLAN`.

It finds what is there, holds the lease if asked to, runs containers, prints `running`, and waits for its end.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from mainstay.env import SystemClock, tasks
from tests.agent.process.machine import a_runner, a_spec, outside, running


async def be(directory: Path, plan: dict[str, Any]) -> None:
    async with a_runner(directory) as runner:
        if "hold_s" in plan:
            until_ns = SystemClock().monotonic_ns() + int(plan["hold_s"] * 1e9)
            await runner.hold_until(until_ns, timedelta(seconds=plan["stopping_s"]))
        for spec in plan["specs"]:
            await running(runner, a_spec(**spec, mounts=outside(directory)))
        os.write(1, b"running\n")
        await asyncio.Event().wait()


def an_agent(directory: Path, prefix: Sequence[str] = (), **plan: Any) -> "subprocess.Popen[bytes]":
    """Start it, and wait until its containers run. Kill it, and wait for it."""
    root = Path(__file__).parents[3]
    argv = [*prefix, sys.executable, "-m", __name__, str(directory), json.dumps(plan)]
    agent = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=root)
    assert agent.stdout is not None
    assert agent.stdout.readline() == b"running\n"
    return agent


def kill(agent: "subprocess.Popen[bytes]") -> None:
    agent.kill()
    agent.wait()
    assert agent.stdout is not None
    agent.stdout.close()


if __name__ == "__main__":
    tasks.run(be(Path(sys.argv[1]), json.loads(sys.argv[2])))
