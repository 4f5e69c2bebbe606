"""`mainstay sim replay`, `shrink`, `diff` and `serve`, as people use them."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mainstay.cli.main import run
from mainstay.sim.run.bundle import RunBundle
from tests.requirements import needs
from tests.sim.failing_run import failing_run

pytestmark = pytest.mark.slow

LIMIT_S = 60.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    failing_run().save(tmp_path / "it.run.json")
    return tmp_path / "it.run.json"


def test_a_run_is_made_again(path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "replay", str(path)]) == 10

    said = capsys.readouterr().out
    assert said.startswith("identical run: violated\n  acknowledged writes: operation deliver.")


def test_a_run_that_passes_now_says_so(path: Path, capsys: pytest.CaptureFixture[str]):
    # As by another build, in which the bug is not.
    msgspec.structs.replace(failing_run(), planted="", build="0.0.1+0").save(path)

    assert run(["sim", "replay", str(path)]) == 0

    said = capsys.readouterr().out
    assert said.startswith(
        "different from the recorded run of one-delivery seed 1:\n  recorded: violated\n    acknowledged writes: "
    )
    assert "\n  now:      passed\nrecorded by build 0.0.1+0 on " in said


def test_a_run_that_should_be_the_same_and_is_not_has_an_exit_code_of_its_own(path: Path):
    bundle = failing_run()
    msgspec.structs.replace(bundle, result=msgspec.structs.replace(bundle.result, trace="other")).save(path)

    assert run(["sim", "replay", str(path)]) == 13


def test_the_small_run_is_written_beside_the_other(path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "shrink", str(path)]) == 0

    said = capsys.readouterr().out
    small = RunBundle.load(path.with_name("it.small.run.json"))
    assert [choice.label for choice in small.tape] == ["fault/answer-lost/clerk"]
    assert said.startswith("reduced 4 choices to 1 with ")
    assert "\nremaining choices:\n  a write is committed but its response is lost: " in said
    assert "\nfaults:\n" in said


def test_two_bundles_are_compared(path: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["sim", "diff", str(path), str(path)]) == 0
    assert capsys.readouterr().out == "no difference\n"

    msgspec.structs.replace(failing_run(), tape=[]).save(path.with_name("quiet.run.json"))
    assert run(["sim", "diff", str(path), str(path.with_name("quiet.run.json"))]) == 13

    said = capsys.readouterr().out
    assert said.startswith("first divergence, after ")
    assert "\n  it.run.json " in said
    assert re.search(r"\n  verdict +violated +passed\n", said)


@pytest.mark.parametrize("command", ["replay", "shrink", "diff", "serve"])
def test_what_is_no_bundle_is_said(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "it").write_text("no JSON")

    assert run(["sim", command, str(tmp_path / "it")]) == 1
    assert "is not a run bundle" in capsys.readouterr().err

    assert run(["sim", command, str(tmp_path / "other")]) == 1
    assert "cannot read bundle" in capsys.readouterr().err


@pytest.fixture
def environment(path: Path) -> Iterator[dict[str, str]]:
    """Of a process that serves the run 3 seconds after its beginning."""
    command = [sys.executable, "-m", "mainstay.cli.main", "sim", "serve", str(path), "--at", "3s"]
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "KUBECONFIG": str(path.with_name("it.kubeconfig"))}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = [process.stdout.readline() for _ in range(2)]
            assert said[0].startswith("one-delivery seed 1, 3.000 s after its start (")
            assert said[1].startswith("Serving at http://127.0.0.1:")
            yield environment
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT_S) == 0
        finally:
            process.kill()


@needs("kubectl")
def test_kubectl_and_why_look_around_while_time_stands_still(environment: dict[str, str]):
    def said(*command: str, code: int = 0) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    mainstay = (sys.executable, "-m", "mainstay.cli.main")
    first, second = (said("kubectl", "get", "configmaps") for _ in range(2))
    assert first == second
    assert first.splitlines()[0].split() == ["NAME", "DATA", "AGE"]
    assert all(line.split()[2] in ("0s", "1s", "2s", "3s") for line in first.splitlines()[1:])
    assert "the cluster is read-only" in said("kubectl", "delete", "configmaps", "--all", code=1)
    assert "ConfigMap default/order-1 exists" in said(*mainstay, "why", "configmap/order-1")
    assert "configmap order-1: created" in said(*mainstay, "timeline", "configmap/order-1")
