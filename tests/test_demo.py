"""The demo shows what it says, on real processes, and leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_runs_to_its_end_and_cleans_up():
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env={**os.environ, "ONCE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "8. kill -9 of the API server" in done.stdout
    assert re.search(r"[1-9]\d* requests to hello-1 meanwhile: 0 failed", done.stdout)
    removed = re.search(r"All is stopped, and (\S+) is removed", done.stdout)
    assert removed is not None
    assert not Path(removed[1]).exists()
