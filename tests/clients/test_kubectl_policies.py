"""The real kubectl applies admission policies: one denies what it writes, another changes it."""

from pathlib import Path

import pytest
import yaml

from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "admission.md"


def test_the_policy_of_the_guide_denies_what_it_says(kubectl):
    manifest = GUIDE.read_text().split("```yaml\n")[1].split("```")[0]
    assert next(each["kind"] for each in yaml.safe_load_all(manifest)) == "ValidatingAdmissionPolicy"
    create = ("create", "deployment", "web", "--image=nginx")
    kubectl("apply", "-f", "-", stdin=manifest)
    try:
        kubectl("create", "deployment", "before", "--image=nginx", "--replicas=6")
        kubectl("label", "namespace", kubectl.namespace, "environment=test")

        refused = kubectl.refused(*create, "--replicas=6")
        kubectl(*create, "--replicas=5")
        again = kubectl.refused("patch", "deployment", "web", "-p", '{"spec": {"replicas": 7}}')

        said = "ValidatingAdmissionPolicy 'few-replicas' with binding 'few-replicas-in-test' denied request"
        assert f"{said}: at most 5 replicas here, not 6" in refused
        assert f"{said}: at most 5 replicas here, not 7" in again
        rows = kubectl.table("get", "validatingadmissionpolicies")
        assert [(row["NAME"], row["VALIDATIONS"], row["PARAMKIND"]) for row in rows] == [
            ("few-replicas", "1", "<unset>")
        ]
        states = kubectl.table("get", "componentstates.mainstay.dev")
        assert any(row["NAME"].startswith("apiserver-") for row in states)
    finally:
        kubectl("delete", "-f", "-", stdin=manifest)
    kubectl("scale", "deployment", "web", "--replicas=0")


def test_the_policy_of_the_guide_changes_what_it_says(kubectl):
    manifest = GUIDE.read_text().split("```yaml\n")[2].split("```")[0]
    assert next(each["kind"] for each in yaml.safe_load_all(manifest)) == "MutatingAdmissionPolicy"
    kubectl("apply", "-f", "-", stdin=manifest)
    try:
        kubectl("label", "namespace", kubectl.namespace, "environment=test", "team=core", "--overwrite")
        kubectl("create", "deployment", "web", "--image=nginx", "--replicas=0")
        kubectl("scale", "deployment", "web", "--replicas=0")
        kubectl("annotate", "deployment", "web", "a=b")

        columns = "custom-columns=TEAM:.metadata.labels.team,NAMES:.spec.template.spec.containers[*].name"
        [row] = kubectl.table("get", "deployment", "web", "-o", columns)
        assert (row["TEAM"], row["NAMES"]) == ("core", "nginx,proxy")
        [listed] = kubectl.table("get", "mutatingadmissionpolicies")
        assert (listed["NAME"], listed["MUTATIONS"]) == ("sidecar", "1")
    finally:
        kubectl("delete", "-f", "-", stdin=manifest)
