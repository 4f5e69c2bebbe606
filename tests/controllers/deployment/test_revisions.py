"""The sets of a Deployment as its history."""

from mainstay.controllers.deployment import revisions
from mainstay.controllers.deployment.revisions import changes_to_new, compute_hash, forgotten, made_set, new_set
from tests.controllers.objects import a_deployment, a_set, a_template


def test_the_set_with_the_wanted_template_is_the_new_one_whatever_hash_it_is_labelled_with():
    sets = [a_set("one", owner="web", image="web:1"), a_set("two", owner="web", image="web:2")]

    assert new_set(a_deployment(image="web:2"), sets) is sets[1]
    assert new_set(a_deployment(image="web:3"), sets) is None


def test_of_two_sets_with_the_template_the_older_is_the_new_one():
    sets = [a_set("young", owner="web", created_at=-5), a_set("old", owner="web", created_at=-50)]

    assert new_set(a_deployment(), sets) is sets[1]


def test_what_says_nothing_makes_no_other_template():
    template = a_template()
    said = {
        "metadata": {**template["metadata"], "creationTimestamp": None, "annotations": {}},
        "spec": template["spec"],
    }

    assert compute_hash(said, 0) == compute_hash(template, 0)
    assert compute_hash(template, 1) != compute_hash(template, 0) != compute_hash(a_template("web:2"), 0)


def test_a_new_set_has_the_template_and_its_hash_as_a_label_everywhere():
    deployment = a_deployment(
        5, minReadySeconds=7, annotations={"team": "risk", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    )

    made = made_set(deployment, "abc", 2, 7, 4)

    labels = {"app": "web", "pod-template-hash": "abc"}
    assert made["metadata"]["name"] == "web-abc"
    assert made["metadata"]["labels"] == labels
    assert made["spec"] == {
        "replicas": 2,
        "minReadySeconds": 7,
        "selector": {"matchLabels": labels},
        "template": a_template(labels=labels),
    }
    assert made["metadata"]["annotations"] == {
        "team": "risk",
        "deployment.kubernetes.io/revision": "4",
        "deployment.kubernetes.io/desired-replicas": "5",
        "deployment.kubernetes.io/max-replicas": "7",
    }
    (reference,) = made["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == ("web", True)


def test_an_earlier_set_that_becomes_the_new_one_gets_the_next_revision_and_remembers_its_own():
    again = a_set("one", revision=1, annotations={revisions.REVISION_HISTORY: "7"})

    changes = changes_to_new(a_deployment(), again, [a_set("two", revision=2), a_set("three", revision=3)])

    assert changes == {"metadata": {"annotations": {revisions.REVISION: "4", revisions.REVISION_HISTORY: "7,1"}}}
    assert changes_to_new(a_deployment(), a_set("four", revision=4), [a_set("two", revision=2)]) == {}


def test_annotations_and_the_time_to_be_ready_are_copied():
    deployment = a_deployment(minReadySeconds=9, annotations={"kubernetes.io/change-cause": "fix"})

    changes = changes_to_new(deployment, a_set("one", revision=1), [])

    assert changes == {
        "metadata": {"annotations": {"kubernetes.io/change-cause": "fix"}},
        "spec": {"minReadySeconds": 9},
    }


def test_the_history_of_a_set_does_not_grow_for_ever():
    history = ",".join(str(number) for number in range(1000, 1500))
    again = a_set("one", revision=1500, annotations={revisions.REVISION_HISTORY: history})

    changed = changes_to_new(a_deployment(), again, [a_set("two", revision=1501)])

    found = changed["metadata"]["annotations"][revisions.REVISION_HISTORY]
    assert len(found) <= revisions.HISTORY_LENGTH_MAX
    assert found.endswith(",1499,1500")


def test_sets_beyond_the_limit_are_forgotten_oldest_revision_first_when_they_are_at_rest():
    old = [
        a_set("four", 0, revision=4),
        a_set("one", 0, revision=1),
        a_set("two", 0, revision=2, terminating=1),
        a_set("three", 0, revision=3),
        a_set("behind", 0, revision=0, generation=3, observed=2),
        a_set("busy", 1, revision=0),
    ]

    assert [each["metadata"]["name"] for each in forgotten(a_deployment(revisionHistoryLimit=1), old)] == [
        "one",
        "three",
    ]
    assert forgotten(a_deployment(revisionHistoryLimit=6), old) == []
    assert forgotten(a_deployment(revisionHistoryLimit=None), old) == []
