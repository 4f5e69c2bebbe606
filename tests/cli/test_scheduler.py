"""`mainstay scheduler` as a command."""

from pathlib import Path

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.main import run


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "nowhere"

    code = run(["scheduler", "--kubeconfig", str(missing), "--data-dir", str(tmp_path / "data")])

    assert code == Exit.ERROR
    assert str(missing) in capsys.readouterr().err


def test_a_wrong_address_for_metrics_is_refused() -> None:
    assert run(["scheduler", "--metrics", "nonsense"]) == Exit.USAGE
