"""`mainstay agent` as a command: what it takes, and what it refuses."""

from ipaddress import IPv4Network
from pathlib import Path

import click
import pytest

from mainstay.agent.settings import TaintSetting
from mainstay.cli.exits import Exit
from mainstay.cli.main import run
from mainstay.cli.node_options import Capacity, Labels, NodeName, Subnet, Taints


def test_what_a_node_is_like_is_read():
    assert Labels().convert("disk=ssd, example.com/rack=7,empty=", None, None) == {
        "disk": "ssd",
        "example.com/rack": "7",
        "empty": "",
    }
    assert Taints().convert("gpu=yes:NoSchedule,old:NoExecute", None, None) == (
        TaintSetting("gpu", "NoSchedule", "yes"),
        TaintSetting("old", "NoExecute"),
    )
    assert Capacity().convert("cpu=4,memory=8Gi,example.com/gpu=2", None, None) == {
        "cpu": "4",
        "memory": "8Gi",
        "example.com/gpu": "2",
    }
    assert Subnet().convert("127.65.0.0/24", None, None) == IPv4Network("127.65.0.0/24")
    assert Labels().convert("", None, None) == {}


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (Labels(), "ssd", "KEY=VALUE"),
        (Labels(), "a b=c", "a b=c"),
        (Labels(), "a=b c", "a=b c"),
        (Taints(), "gpu=yes", "EFFECT"),
        (Taints(), "gpu=yes:Never", "NoSchedule"),
        (Capacity(), "cpu", "RESOURCE=QUANTITY"),
        (Capacity(), "cpu=many", "cpu=many"),
        (Capacity(), "cpu=-1", "is negative"),
        (Subnet(), "127.64.0.1/24", "127.64.0.0/24"),
        (NodeName(), "Node_1", "Node_1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_own_words(kind, text, why):
    with pytest.raises(click.BadParameter) as error:
        kind.convert(text, None, None)
    assert why in error.value.message


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = tmp_path / "nowhere"

    code = run(["agent", "--name", "n", "--kubeconfig", str(missing), "--data-dir", str(tmp_path / "data")])

    assert code == Exit.ERROR
    assert str(missing) in capsys.readouterr().err


def test_a_real_machine_is_one_node(capsys: pytest.CaptureFixture[str]):
    assert run(["agent", "--count", "2"]) == Exit.USAGE
    assert "--runner pretend" in capsys.readouterr().err


def test_times_of_a_lease_that_do_not_go_together_are_refused(capsys: pytest.CaptureFixture[str]):
    assert run(["agent", "--lease-duration", "5s", "--renew-every", "4s"]) == Exit.USAGE
    assert "--renew-every" in capsys.readouterr().err
