"""The columns are those of the real server, and a row can be made of anything."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstay.api import tables
from mainstay.api.kind import Column
from mainstay.api.tables import CUSTOM_DEFAULT, DEFAULT, TABLES, Table, custom_table
from tests.api.table_rows import NOW, an_object

# As a server of version 1.36 answers: `*` is a column that is only shown when asked for, `:` the format.
REAL = """
/ConfigMap: Name(string:name), Data(string), Age(string)
/Endpoints: Name(string:name), Endpoints(string), Age(string)
/Event: Last Seen(string), Type(string), Reason(string), Object(string), Subobject*(string), Source*(string), \
Message(string), First Seen*(string), Count*(string), Name*(string:name)
/LimitRange: Name(string:name), Created At(date)
/Namespace: Name(string:name), Status(string), Age(string)
/Node: Name(string:name), Status(string), Roles(string), Age(string), Version(string), Internal-IP*(string), \
External-IP*(string), OS-Image*(string), Kernel-Version*(string), Container-Runtime*(string)
/PersistentVolumeClaim: Name(string:name), Status(string), Volume(string), Capacity(string), Access Modes(string), \
StorageClass(string), VolumeAttributesClass(string), Age(string), VolumeMode*(string)
/PersistentVolume: Name(string:name), Capacity(string), Access Modes(string), Reclaim Policy(string), Status(string), \
Claim(string), StorageClass(string), VolumeAttributesClass(string), Reason(string), Age(string), VolumeMode*(string)
/Pod: Name(string:name), Ready(string), Status(string), Restarts(string), Age(string), IP*(string), Node*(string), \
Nominated Node*(string), Readiness Gates*(string)
/PodTemplate: Name(string:name), Containers(string), Images(string), Pod Labels(string)
/ReplicationController: Name(string:name), Desired(integer), Current(integer), Ready(integer), Age(string), \
Containers*(string), Images*(string), Selector*(string)
/ResourceQuota: Name(string:name), Request(string), Limit(string), Age(string)
/Secret: Name(string:name), Type(string), Data(string), Age(string)
/ServiceAccount: Name(string:name), Age(string)
/Service: Name(string:name), Type(string), Cluster-IP(string), External-IP(string), Port(s)(string), Age(string), \
Selector*(string)
apiregistration.k8s.io/APIService: Name(string:name), Service(string), Available(string), Age(string)
apps/ControllerRevision: Name(string:name), Controller(string), Revision(string), Age(string)
apps/DaemonSet: Name(string:name), Desired(integer), Current(integer), Ready(integer), Up-to-date(integer), \
Available(integer), Node Selector(string), Age(string), Containers*(string), Images*(string), Selector*(string)
apps/Deployment: Name(string:name), Ready(string), Up-to-date(string), Available(string), Age(string), \
Containers*(string), Images*(string), Selector*(string)
apps/ReplicaSet: Name(string:name), Desired(integer), Current(integer), Ready(integer), Age(string), \
Containers*(string), Images*(string), Selector*(string)
apps/StatefulSet: Name(string:name), Ready(string), Age(string), Containers*(string), Images*(string)
events.k8s.io/Event: Last Seen(string), Type(string), Reason(string), Object(string), Subobject*(string), \
Source*(string), Message(string), First Seen*(string), Count*(string), Name*(string:name)
autoscaling/HorizontalPodAutoscaler: Name(string:name), Reference(string), Targets(string), MinPods(string), \
MaxPods(string), Replicas(string), Age(string)
batch/CronJob: Name(string:name), Schedule(string), Timezone(string), Suspend(boolean), Active(integer), \
Last Schedule(string), Age(string), Containers*(string), Images*(string), Selector*(string)
batch/Job: Name(string:name), Status(string), Completions(string), Duration(string), Age(string), \
Containers*(string), Images*(string), Selector*(string)
policy/PodDisruptionBudget: Name(string:name), Min Available(string), Max Unavailable(string), \
Allowed Disruptions(integer), Age(string)
rbac.authorization.k8s.io/Role: Name(string:name), Created At(date)
storage.k8s.io/StorageClass: Name(string:name), Provisioner(string), ReclaimPolicy(string), \
VolumeBindingMode(string), AllowVolumeExpansion(string), Age(string)
apiextensions.k8s.io/CustomResourceDefinition: Name(string:name), Created At(date)
scheduling.k8s.io/PriorityClass: Name(string:name), Value(integer), Global-Default(boolean), Age(string), \
PreemptionPolicy(string)
coordination.k8s.io/Lease: Name(string:name), Holder(string), Age(string)
discovery.k8s.io/EndpointSlice: Name(string:name), AddressType(string), Ports(string), Endpoints(string), Age(string)
"""


# What we add to them, after all others and only when asked for.
OURS = {
    "apps/Deployment": ", Progress*(string), Limited By*(string)",
    "apps/ReplicaSet": ", Progress*(string), Limited By*(string)",
    "batch/Job": ", Progress*(string), Limited By*(string)",
}


def written(column: Column) -> str:
    type_and_format = f"{column.type}:{column.format}" if column.format else column.type
    return f"{column.name}{'*' if column.priority else ''}({type_and_format})"


def test_the_columns_are_those_of_the_real_server_and_then_some_of_ours():
    real = dict(line.split(": ", 1) for line in REAL.strip().splitlines())
    ours = {f"{group}/{kind}": ", ".join(map(written, each.columns)) for (group, kind), each in TABLES.items()}

    assert {kind: ours.get(kind) for kind in real} == {kind: line + OURS.get(kind, "") for kind, line in real.items()}


def test_our_own_kinds_have_tables_too():
    ours = {
        kind: [each.name for each in table.columns]
        for (group, kind), table in TABLES.items()
        if group == "mainstay.dev"
    }

    assert ours == {
        "Reservation": ["Name", "Node", "Workload", "Phase", "Expires", "Age"],
        "ZoneQuota": ["Name", "Zone", "Hard", "Used", "Age"],
        "PlacementPolicy": ["Name", "Version", "Active", "Age"],
        "PolicyRollout": ["Name", "Policy", "Stage", "Gate", "Age"],
        "Credential": ["Name", "Certificates", "Expires", "Revoked", "Age"],
        "Hold": ["Name", "What", "Target", "Owner", "Left", "Reason", "Age"],
        "SamplingPolicy": ["Name", "Rules", "Dry Run", "Incident Until", "Age"],
        "ControllerSettings": ["Name", "Set", "Age"],
        "ServiceLevelObjective": ["Name", "Target", "Burning", "Reason", "Budget", "Age"],
        "ComponentState": ["Name", "Role", "Term", "Build", "Age"],
    }


def test_every_column_says_what_it_is():
    nameless = [(key, each.name) for key, table in TABLES.items() for each in table.columns if not each.description]

    assert nameless == []


def test_a_kind_without_a_table_shows_when_it_was_created():
    assert [written(each) for each in DEFAULT.columns] == ["Name(string:name)", "Created At(date)"]
    assert DEFAULT.cells(an_object("admin"), NOW) == ["admin", "2026-11-15T11:55:00Z"]
    assert DEFAULT.cells({}, NOW) == ["", "0001-01-01T00:00:00Z"]


def test_a_custom_kind_without_columns_shows_its_age():
    assert [written(each) for each in CUSTOM_DEFAULT.columns] == ["Name(string:name)", "Age(date)"]
    assert CUSTOM_DEFAULT.cells(an_object("mine"), NOW) == ["mine", "5m"]
    assert CUSTOM_DEFAULT.cells({}, NOW) == ["", None]


# The fields that the tables look at, as they stand in their source: anything may be in these.
SOURCES = "".join(path.read_text() for path in sorted(Path(tables.__file__).parent.glob("*.py")))
PATHS = sorted(set(re.findall(r"[\"']([a-z][A-Za-z]*(?:\.[a-zA-Z]+)*)[\"']", SOURCES)) - {"mainstay.dev"})
NAMES = sorted({step for path in PATHS for step in path.split(".")})
WORDS = ["", "True", "Ready", "Initialized", "Completed", "LoadBalancer", "In", "Exists", "Always", "100Mi", "Resource"]
WORDS += ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-11-15T11:55:00Z", "\ud800", "PodInitializing"]

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**300), 2**63]),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=3),
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=12,
)


def with_field(found: dict[str, Any], path: str, value: Any) -> None:
    *above, last = path.split(".")
    for step in above:
        below = found.get(step)
        if not isinstance(below, dict):
            below = found[step] = {}
        found = below
    found[last] = value


@st.composite
def odd_objects(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path, value in draw(st.lists(st.tuples(st.sampled_from(PATHS), values), max_size=25)):
        with_field(found, path, value)
    return found


COLUMNS_OF_ALL_TYPES = [
    {"name": f"{path} {holds}", "type": holds, "jsonPath": path}
    for path in (
        ".spec",
        ".spec[0]",
        ".status[*]",
        '.status.conditions[?(@.type=="Ready")].status',
        ".spec[?(@>1)]",
        "]",
    )
    for holds in ("string", "integer", "number", "boolean", "date", "other")
]


def check_row(table: Table, found: dict[str, Any]) -> None:
    cells = table.cells(found, NOW)
    assert len(cells) == len(table.columns)
    assert all(cell is None or isinstance(cell, str | int | float) for cell in cells)


@pytest.mark.slow
@settings(max_examples=200)
@given(found=odd_objects())
def test_a_row_can_be_made_of_anything(found: dict[str, Any]):
    for table in (*TABLES.values(), DEFAULT, custom_table(COLUMNS_OF_ALL_TYPES)):
        check_row(table, found)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    definitions=st.lists(values, max_size=3), path=st.text("abc.[]()?@'\"=*:-01\\ $", max_size=20), found=odd_objects()
)
def test_a_table_can_be_made_of_any_columns(definitions: list[Any], path: str, found: dict[str, Any]):
    check_row(custom_table([*definitions, {"name": "X", "type": "string", "jsonPath": path}]), found)
