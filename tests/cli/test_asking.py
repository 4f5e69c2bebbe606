"""Which cluster a command asks, and what it says when that does not work."""

from pathlib import Path

import click
import pytest

from mainstay.cli.cluster_access import Terminal, describe_error, load_config
from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.client.errors import Unavailable


def write_kubeconfig(path: Path, server: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "current-context: one\n"
        "contexts:\n"
        "- {name: one, context: {cluster: c, namespace: shop}}\n"
        "- {name: two, context: {cluster: d}}\n"
        f"clusters:\n- {{name: c, cluster: {{server: 'http://{server}'}}}}\n"
        "- {name: d, cluster: {server: 'http://other:1'}}\n"
    )
    return path


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A machine on which everything is there."""
    write_kubeconfig(tmp_path / "named", "named")
    write_kubeconfig(tmp_path / "variable", "variable")
    write_kubeconfig(tmp_path / ".local/state/mainstay/cluster/kubeconfig", "up")
    write_kubeconfig(tmp_path / ".kube/config", "kube")
    return {"HOME": str(tmp_path), "KUBECONFIG": f"{tmp_path}/none:{tmp_path}/variable"}


def server_of(environ: dict[str, str], kubeconfig: str = "") -> str:
    return load_config(kubeconfig, environ=environ).servers[0]


def test_a_kubeconfig_is_looked_for_in_one_place_after_the_other(home: dict[str, str], tmp_path: Path):
    assert server_of(home, str(tmp_path / "named")) == "http://named"
    assert server_of(home) == "http://variable"
    del home["KUBECONFIG"]
    assert server_of(home) == "http://up"
    state = write_kubeconfig(tmp_path / "state/mainstay/cluster/kubeconfig", "state").parents[2]
    assert server_of({**home, "XDG_STATE_HOME": str(state)}) == "http://state"
    (tmp_path / ".local/state/mainstay/cluster/kubeconfig").unlink()
    assert server_of(home) == "http://kube"
    (tmp_path / ".kube/config").unlink()
    with pytest.raises(click.ClickException, match="start a cluster with `mainstay up`"):
        server_of(home)


def test_a_kubeconfig_that_was_named_has_to_be_there(home: dict[str, str], tmp_path: Path):
    with pytest.raises(click.ClickException, match=r"kubeconfig .* not found"):
        server_of(home, str(tmp_path / "none"))


def test_a_kubeconfig_that_the_environment_names_is_named_if_it_is_not_there():
    with pytest.raises(click.ClickException, match="kubeconfig /nowhere/config not found: correct KUBECONFIG"):
        server_of({"HOME": "/nowhere", "KUBECONFIG": "/nowhere/config"})


def test_a_context_says_which_cluster_and_namespace(home: dict[str, str]):
    assert load_config("", "", home).namespace == "shop"
    assert load_config("", "two", home).servers == ("http://other:1",)
    with pytest.raises(click.ClickException, match=r"variable: kubeconfig: context 'three' not found"):
        load_config("", "three", home)


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_an_error_with_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kubeconfig = write_kubeconfig(tmp_path / "config", "127.0.0.1:1")
    assert run(["get", "pods", "--kubeconfig", str(kubeconfig)]) == Exit.ERROR
    said = capsys.readouterr().err
    assert said.startswith("mainstay: GET /api: no connection to http://127.0.0.1:1")
    assert "Is the cluster at http://127.0.0.1:1 running? Check `mainstay status`" in said


def test_an_answer_of_the_server_needs_no_advice_about_connections():
    assert describe_error(Unavailable("it cannot now", status=503)) == "it cannot now"


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_there_are_no_colours_where_there_is_no_terminal(environ: dict[str, str]):
    assert not Terminal(environ).is_coloured


@pytest.mark.parametrize("arguments", [["get", "pods", "-o", "xml"], ["get", "pods", "-o", "jsonpath={"], ["apply"]])
def test_what_makes_no_sense_is_wrong_usage(arguments: list[str]):
    assert run(arguments) == Exit.USAGE
