"""A chaos run that fails leaves a bundle that `mainstay replay` opens."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mainstay.cli.exits import Exit
from tests.chaos import __main__ as chaos
from tests.chaos.cluster import Cluster
from tests.chaos.incident import leave_bundle
from tests.chaos.promises import CLIENT_LEAVES_SOCKETS
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl"), CLIENT_LEAVES_SOCKETS]


def replayed(path: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "mainstay.cli.main", "replay", str(path), "-o", "json"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == Exit.SATISFIED, done.stderr.decode()
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_broken_promise_leaves_a_bundle_of_the_run_and_says_how_to_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The failure is planted: after the first kill an acknowledged write is taken for lost."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(chaos, "KILLS_A_ROUND", 1)
    monkeypatch.setattr(chaos, "lost", lambda writer, present: ["planted"])

    assert chaos.main(["--minutes", "10", "--seed", "7"]) == 1

    shown = capsys.readouterr().out
    assert "acknowledged and lost: ['planted']" in shown
    path = tmp_path / "chaos-failures" / "chaos-seed-7.bundle"
    assert f"open it with: mainstay replay {path}" in shown
    found = replayed(path)
    assert found["replayed"]
    assert found["agreement"] == 1
    left = re.search(r"the cluster is left in (\S+)", shown)
    assert left is not None
    shutil.rmtree(left[1])


def test_a_cluster_whose_server_is_down_still_leaves_one(tmp_path: Path):
    with Cluster(nodes=1) as cluster:
        cluster.until(lambda: len(cluster.ready_nodes()) == 1)
        cluster.mainstay("down", f"--data-dir={cluster.data_dir}")

        found = replayed(leave_bundle(cluster, "down", tmp_path))

    assert found["replayed"]
