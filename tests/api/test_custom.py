"""From definitions to kinds, and to their status."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mainstay.api.crd_rules import problems_of_crd
from mainstay.api.custom import (
    ScalePaths,
    acceptance,
    build_versions,
    defaults_for_crd,
    prepare_crd,
)
from mainstay.api.kind import SCALE, STATUS, Kind, Object
from tests.api.definitions import NOON, a_crd, a_version

WITH_STATUS: Object = {"status": {}}
SCALED: Object = {
    "scale": {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
}


def a_condition(name: str, status: str, reason: str, message: str) -> Object:
    return {"type": name, "status": status, "lastTransitionTime": NOON, "reason": reason, "message": message}


ACCEPTED = a_condition("NamesAccepted", "True", "NoConflicts", "no conflicts found")
ESTABLISHED = a_condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")


def accepted(crd: Object, *others: Object, builtin: tuple[Kind, ...] = ()) -> Object:
    """The definition with the status that it gets."""
    return {**crd, "status": acceptance(crd, others, builtin, NOON)}


def kinds(crd: Object) -> list[Kind]:
    return [version.kind for version in build_versions(crd)]


def the_kind(version: Object) -> Kind:
    (kind,) = kinds(a_crd("foos", "Foo", version))
    return kind


def test_every_served_version_is_a_kind():
    crd = a_crd(
        "foos",
        "Foo",
        a_version("v1"),
        a_version("v1beta1", storage=False),
        a_version("v0", served=False),
        shortNames=["fo"],
        categories=["all"],
        scope="Cluster",
    )

    found = [
        (
            kind.group,
            kind.version,
            kind.kind,
            kind.plural,
            kind.singular,
            kind.short_names,
            kind.categories,
            kind.namespaced,
        )
        for kind in kinds(crd)
    ]

    assert found == [
        ("example.com", "v1", "Foo", "foos", "foo", ("fo",), ("all",), False),
        ("example.com", "v1beta1", "Foo", "foos", "foo", ("fo",), ("all",), False),
    ]
    assert all(kind.is_custom and kind.put_needs_version and not kind.message for kind in kinds(crd))


def test_subresources_are_those_that_are_asked_for():
    assert the_kind(a_version()).subresources == ()
    assert the_kind(a_version(subresources=WITH_STATUS)).subresources == (STATUS,)
    assert the_kind(a_version(subresources=WITH_STATUS | SCALED)).subresources == (STATUS, SCALE)


def test_the_scale_paths_of_a_version_are_known():
    crd = a_crd("foos", "Foo", a_version(subresources=SCALED))

    paths = ScalePaths(("spec", "replicas"), ("status", "replicas"), ("status", "selector"))
    assert build_versions(crd)[0].scale == paths
    assert build_versions(a_crd())[0].scale is None


def test_a_status_with_an_address_of_its_own_is_not_written_with_the_object():
    kind = the_kind(a_version(subresources=WITH_STATUS))
    made: Object = {"spec": {}, "status": {"ready": True}}
    changed: Object = {"spec": {}, "status": {"ready": False}}

    kind.prepare(made, None)
    kind.prepare(changed, {"status": {"ready": True}})

    assert made == {"spec": {}}
    assert changed == {"spec": {}, "status": {"ready": True}}


def test_without_that_address_the_status_is_a_field_like_any_other():
    made: Object = {"spec": {}, "status": {"ready": True}}

    the_kind(a_version()).prepare(made, None)

    assert made == {"spec": {}, "status": {"ready": True}}


def test_unknown_fields_go_and_defaults_come():
    kind = the_kind(a_version(spec={"type": "object", "properties": {"size": {"type": "integer", "default": 2}}}))
    obj: Object = {"metadata": {"name": "a"}, "spec": {"colour": "red"}}

    kind.defaults(obj)

    assert obj == {"metadata": {"name": "a"}, "spec": {"size": 2}}


def test_an_object_must_be_as_the_schema_says():
    (cause,) = the_kind(a_version()).validate({"spec": {"size": "x"}}, None)

    assert (cause.field, cause.type) == ("spec.size", "FieldValueTypeInvalid")


def test_columns_come_from_the_definition():
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
    kind = the_kind(a_version(additionalPrinterColumns=columns))
    assert kind.cells is not None

    assert [column.name for column in kind.columns] == ["Name", "Size"]
    assert kind.cells({"metadata": {"name": "a"}, "spec": {"size": 3}}, datetime(2026, 1, 1, tzinfo=UTC)) == ["a", 3]


def test_objects_can_be_selected_by_the_fields_that_are_named():
    kind = the_kind(a_version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.on"}]))
    assert kind.selectable is not None

    found = {name: read({"spec": {"color": "red", "on": True}}) for name, read in kind.selectable.items()}

    assert found == {"spec.color": "red", "spec.on": "true"}
    assert kind.selectable["spec.color"]({}) == ""


def test_a_schema_that_cannot_be_used_leaves_objects_as_they_are():
    version = a_version()
    version["schema"] = {"openAPIV3Schema": {"properties": {"spec": {}}}}
    obj: Object = {"spec": {"x": {"y": 1}}}

    the_kind(version).defaults(obj)

    assert obj == {"spec": {"x": {"y": 1}}}


def test_a_definition_says_the_rest_by_itself():
    crd: Object = {"spec": {"names": {"plural": "foos", "kind": "Foo"}}}

    defaults_for_crd(crd)

    assert crd["spec"] == {
        "names": {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"},
        "conversion": {"strategy": "None"},
    }


def test_a_new_definition_knows_which_version_is_stored_and_nothing_else():
    crd = a_crd() | {"status": {"storedVersions": ["v9"], "conditions": [ESTABLISHED]}}

    prepare_crd(crd, None)

    assert crd["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


def test_versions_that_were_stored_once_are_remembered():
    old = accepted(a_crd())
    new = a_crd("foos", "Foo", a_version("v1", storage=False), a_version("v2"))

    prepare_crd(new, old)

    assert new["status"] == {**old["status"], "storedVersions": ["v1", "v2"]}
    assert old["status"]["storedVersions"] == ["v1"]


def test_names_that_are_not_taken_are_accepted():
    assert accepted(a_crd(shortNames=["fo"]))["status"] == {
        "acceptedNames": {
            "plural": "foos",
            "singular": "foo",
            "shortNames": ["fo"],
            "kind": "Foo",
            "listKind": "FooList",
        },
        "conditions": [ACCEPTED, ESTABLISHED],
        "storedVersions": ["v1"],
    }


def test_asking_again_changes_nothing():
    crd = accepted(a_crd())

    assert acceptance(crd, [], [], "2026-01-01T13:00:00Z") == crd["status"]


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"kind": "Foo"}, "KindConflict", '"Foo" is already in use'),
        ({"kind": "Bar", "listKind": "FooList"}, "ListKindConflict", '"FooList" is already in use'),
        ({"kind": "Bar", "singular": "foo"}, "SingularConflict", '"foo" is already in use'),
        (
            {"kind": "Bar", "shortNames": ["b", "fo", "foos"]},
            "ShortNamesConflict",
            '["fo" is already in use, "foos" is already in use]',
        ),
    ],
)
def test_a_name_that_another_definition_has_is_not_accepted(names: dict[str, Any], reason: str, message: str):
    first = accepted(a_crd("foos", "Foo", shortNames=["fo"]))
    second = accepted(a_crd("bars", **{"listKind": "BarList", "singular": "bar", **names}), first)

    assert second["status"]["conditions"] == [
        a_condition("NamesAccepted", "False", reason, message),
        a_condition("Established", "False", "NotAccepted", "not all names are accepted"),
    ]


def test_names_of_another_group_are_no_conflict():
    assert accepted(a_crd(group="other.org"), accepted(a_crd()))["status"]["conditions"] == [ACCEPTED, ESTABLISHED]


def test_a_name_of_a_kind_that_is_always_there_is_not_accepted():
    there = Kind(group="example.com", version="v1", kind="Foo", plural="foos", singular="foo", namespaced=True)

    status = accepted(a_crd("bars", "Foo"), builtin=(there,))["status"]

    assert [each["status"] for each in status["conditions"]] == ["False", "False"]


def test_who_is_established_stays_so_and_keeps_the_names_it_has():
    first = accepted(a_crd("foos", "Foo"))
    second = accepted(a_crd("bars", "Bar", shortNames=["b"]), first)
    second["spec"]["names"]["shortNames"] = ["foo"]

    status = accepted(second, first)["status"]

    assert status["acceptedNames"]["shortNames"] == ["b"]
    assert status["conditions"] == [
        a_condition("NamesAccepted", "False", "ShortNamesConflict", '"foo" is already in use'),
        ESTABLISHED,
    ]


def test_a_schema_that_is_not_structural_is_told_in_the_status():
    version = a_version()
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}}
    crd = accepted(a_crd("foos", "Foo", version))
    text = "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: "
    text += "must not be empty for specified object fields"

    assert crd["status"]["conditions"] == [
        ACCEPTED,
        ESTABLISHED,
        a_condition("NonStructuralSchema", "True", "Violations", text),
    ]

    mended = {**a_crd(), "status": crd["status"]}
    assert accepted(mended)["status"]["conditions"] == [ACCEPTED, ESTABLISHED]


def test_a_definition_in_order_has_no_problems():
    assert problems_of_crd(a_crd(), None) == []
    assert problems_of_crd(accepted(a_crd()), accepted(a_crd())) == []


def changed(**spec: Any) -> Object:
    crd = a_crd()
    crd["spec"].update(spec)
    return crd


@pytest.mark.parametrize(
    ("crd", "expected"),
    [
        ({"metadata": {"name": "x"}}, "spec: Required value"),
        (
            changed(scope="Everywhere"),
            'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"',
        ),
        (
            changed(group="other.org"),
            'metadata.name: Invalid value: "foos.example.com": must be spec.names.plural+"."+spec.group',
        ),
        (changed(versions=[]), "spec.versions: Required value: must have at least one version"),
        (
            changed(versions=[a_version(), a_version("v2")]),
            'spec.versions: Invalid value: "": must have exactly one version marked as storage version',
        ),
        (
            changed(versions=[{"name": "v1", "served": True, "storage": True}]),
            "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
        ),
        (changed(names="foos"), 'spec.names: Invalid value: "": has the wrong type'),
        (
            a_crd(group="x.k8s.io"),
            "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval "
            'annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
        ),
        (
            changed(
                versions=[
                    a_version(subresources={"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.n"}})
                ]
            ),
            'spec.versions[0].subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path '
            "under .spec",
        ),
        (
            changed(versions=[a_version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".x"}])]),
            'spec.versions[0].additionalPrinterColumns[0].type: Invalid value: "text": must be one of '
            "boolean,date,integer,number,string",
        ),
    ],
)
def test_what_a_definition_may_not_say_is_refused(crd: Object, expected: str):
    assert [f"{cause.field}: {cause.message}" for cause in problems_of_crd(crd, None)] == [expected]


def test_an_established_definition_keeps_its_scope_and_kind():
    old = accepted(a_crd())
    new = a_crd("foos", "Other", scope="Cluster")

    assert [cause.field for cause in problems_of_crd(new, old)] == ["spec.scope", "spec.names.kind"]
    assert problems_of_crd(new, a_crd()) == []


def test_a_version_that_is_stored_cannot_be_dropped():
    new = {**a_crd("foos", "Foo", a_version("v2")), "status": {"storedVersions": ["v1", "v2"]}}

    (cause,) = problems_of_crd(new, None)

    assert (cause.field, cause.message) == (
        "status.storedVersions[0]",
        'Invalid value: "v1": missing from spec.versions',
    )
