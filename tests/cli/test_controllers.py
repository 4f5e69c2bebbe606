"""`mainstay controllers` as a command."""

import pytest

from mainstay.cli.exits import Exit
from mainstay.cli.main import run


def test_it_says_that_it_does_not_know_whom_to_ask(tmp_path, capsys):
    missing = tmp_path / "kubeconfig"

    code = run(["controllers", "--kubeconfig", str(missing), "--data-dir", str(tmp_path / "data")])

    assert code == Exit.ERROR
    assert str(missing) in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--only", "--without"])
def test_a_controller_that_there_is_not_is_a_usage_error_that_names_those_there_are(option, capsys):
    assert run(["controllers", option, "deployment,nonsense"]) == Exit.USAGE

    said = " ".join(capsys.readouterr().err.split())
    assert "unknown controller 'nonsense': use one of " in said
    assert "replicaset" in said
