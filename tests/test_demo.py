"""The demo shows what it says, on real processes, and leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parent.parent


def test_the_demo_runs_to_its_end_and_cleans_up():
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "ONCE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "7. kill -9 of the API server" in done.stdout
    assert re.search(r"\$ mainstay why deploy/risk-api\n +\d of \d+ .*: .*(readiness|crash|exited)", done.stdout), (
        done.stdout
    )
    replayed = re.search(r"(\d+) decisions replayed, all identical", done.stdout)
    assert replayed is not None, done.stdout
    assert int(replayed[1]) > 100
    counted = re.findall(r"(\d+) requests to risk-api meanwhile: (\d+) failed", done.stdout)
    # While processes are killed, a node is silent, versions come and go, and the server is away.
    assert [int(failed) for _, failed in counted] == [0, 0, 0, 0, 0]
    assert all(int(served) > 20 for served, _ in counted)
    # Of the silent one: on a busy machine another one may be late with a heartbeat.
    silent = re.search(r"^4\. (node-\w+), with", done.stdout, re.MULTILINE)
    assert silent is not None, done.stdout
    since = done.stdout[silent.end() :]
    states = re.findall(rf"{silent[1]} +(Suspect|Unknown|Released|healthy)\b", since)
    assert states[:4] == ["Suspect", "Unknown", "Released", "healthy"], done.stdout
    assert "exceeded its progress deadline" in done.stdout or "$ kubectl" not in done.stdout
    removed = re.search(r"All is stopped, and (\S+) is removed", done.stdout)
    assert removed is not None
    assert not Path(removed[1]).exists()
