"""The real kubectl, over TLS, against a real server process: what is wanted comes from a file."""

import re
from pathlib import Path

import pytest
import yaml

from tests.clients.kubectl import CONFIGMAP, DEPLOYMENT, SERVICE, a_pod
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


def test_apply_creates_then_changes_then_leaves_alone(kubectl):
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web created\n"
    before = kubectl.json("get", "deployment", "web")["metadata"]
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    assert kubectl.json("get", "deployment", "web")["metadata"] == before

    # What another has set, and the file does not mention, stays.
    kubectl("annotate", "deployment", "web", "note=ours")
    changed = DEPLOYMENT.replace("nginx:1", "nginx:2").replace("replicas: 2", "minReadySeconds: 5")
    assert kubectl("apply", "-f", "-", stdin=changed) == "deployment.apps/web configured\n"

    after = kubectl.json("get", "deployment", "web")
    assert after["metadata"]["annotations"]["note"] == "ours"
    assert after["metadata"]["generation"] == 2
    # The file no longer says how many: the default counts again.
    assert (after["spec"]["replicas"], after["spec"]["minReadySeconds"]) == (1, 5)
    assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert "nginx:2" in kubectl("apply", "view-last-applied", "deployment", "web")


def test_server_side_apply_does_not_take_fields_from_others(kubectl):
    apply = ("apply", "--server-side", "-f", "-")
    theirs = DEPLOYMENT.replace("replicas: 2", "replicas: 4")

    assert kubectl(*apply, stdin=DEPLOYMENT) == "deployment.apps/web serverside-applied\n"
    before = kubectl.json("get", "deployment", "web")["metadata"]["resourceVersion"]
    kubectl(*apply, stdin=DEPLOYMENT)
    assert kubectl.json("get", "deployment", "web")["metadata"]["resourceVersion"] == before

    refusal = kubectl.refused(*apply, "--field-manager=other", stdin=theirs)
    assert refusal.startswith('error: Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas\n')
    kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=theirs)
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 4
    assert 'conflict with "other": .spec.replicas' in kubectl.refused(*apply, stdin=DEPLOYMENT)


def test_what_was_applied_by_the_client_can_be_applied_by_the_server(kubectl):
    kubectl("apply", "-f", "-", stdin=CONFIGMAP)

    kubectl("apply", "--server-side", "-f", "-", stdin=CONFIGMAP.replace("colour", "shade"))

    assert kubectl.json("get", "configmap", "settings")["data"] == {"shade": "red"}


def test_apply_takes_a_directory(kubectl, tmp_path: Path):
    (tmp_path / "a.yaml").write_text(f"{CONFIGMAP}\n---\n{SERVICE}")
    (tmp_path / "b.json").write_text(a_pod("one"))
    (tmp_path / "notes.txt").write_text("not for kubectl")

    assert kubectl("apply", "-f", str(tmp_path)).splitlines() == [
        "configmap/settings created",
        "service/web created",
        "pod/one created",
    ]
    assert kubectl("apply", "-f", str(tmp_path)).splitlines() == [
        "configmap/settings unchanged",
        "service/web unchanged",
        "pod/one unchanged",
    ]
    kubectl("delete", "-f", str(tmp_path))
    assert kubectl("get", "configmaps,services,pods", "-o", "name") == ""


def test_diff_shows_what_apply_would_change_and_changes_nothing(kubectl):
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert kubectl("diff", "-f", "-", stdin=DEPLOYMENT) == ""

    done = kubectl.run(("diff", "-f", "-"), DEPLOYMENT.replace("replicas: 2", "replicas: 4"), {})

    assert done.returncode == 1
    changed = [line.strip() for line in done.stdout.splitlines() if re.match(r"[-+] ", line)]
    assert [re.sub(r"\s+", " ", line) for line in changed] == [
        "- generation: 1",
        "+ generation: 2",
        "- replicas: 2",
        "+ replicas: 4",
    ]
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 2


def test_a_server_side_dry_run_shows_defaults_and_stores_nothing(kubectl):
    shown = kubectl("create", "deployment", "web", "--image=x:1", "--dry-run=server", "-o", "yaml")
    assert yaml.safe_load(shown)["spec"]["progressDeadlineSeconds"] == 600
    assert kubectl("apply", "-f", "-", "--dry-run=server", stdin=CONFIGMAP) == (
        "configmap/settings created (server dry run)\n"
    )
    assert kubectl("get", "deployments,configmaps", "-o", "name") == ""

    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    kubectl("delete", "configmap", "settings", "--dry-run=server")
    kubectl("label", "configmap", "settings", "a=b", "--dry-run=server")
    assert "labels" not in kubectl.json("get", "configmap", "settings")["metadata"]


def test_edit_sends_what_the_editor_leaves(kubectl, tmp_path: Path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nexec sed -i s/red/green/ "$1"\n')
    editor.chmod(0o755)
    kubectl("create", "-f", "-", stdin=CONFIGMAP)

    assert kubectl("edit", "configmap", "settings", EDITOR=str(editor)) == "configmap/settings edited\n"
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "green"}


def test_replace_conflicts_with_a_newer_version(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    read = kubectl("get", "configmap", "settings", "-o", "yaml")

    assert kubectl("replace", "-f", "-", stdin=read.replace("red", "blue")) == "configmap/settings replaced\n"
    assert kubectl.refused("replace", "-f", "-", stdin=read.replace("red", "green")) == (
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps '
        '"settings": the object has been modified; please apply your changes to the latest version and try again'
    )
    assert kubectl.json("get", "configmap", "settings")["data"] == {"colour": "blue"}


def test_a_forced_replace_recreates_the_object(kubectl):
    kubectl("create", "-f", "-", stdin=CONFIGMAP)
    before = kubectl.json("get", "configmap", "settings")["metadata"]["uid"]

    kubectl("replace", "--force", "-f", "-", stdin=CONFIGMAP)

    assert kubectl.json("get", "configmap", "settings")["metadata"]["uid"] != before
