"""The table of what is accepted and not enforced: complete, found in objects, and the same as the page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mainstay
from mainstay.api import kind_names
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN
from mainstay.api.schema import SCALARS, SPECIAL, find_fields
from mainstay.api.unenforced import FIELDS, KINDS, SUBRESOURCES, UnenforcedField
from mainstay.api.unenforced_search import find_refused, find_runner, find_unenforced
from tests.api.enforced_fields import ENFORCED, INFORMATION, WHOLE
from tests.api.enforced_fields import KINDS as ENFORCED_KINDS

ROOT = Path(__file__).parents[2]
PRODUCT = Path(mainstay.__file__).parent
WALKED = (
    kind_names.PODS,
    kind_names.SERVICES,
    kind_names.DEPLOYMENTS,
    kind_names.REPLICASETS,
    kind_names.JOBS,
    kind_names.DISRUPTION_BUDGETS,
    kind_names.RESOURCE_QUOTAS,
    kind_names.NODES,
    kind_names.NAMESPACES,
    kind_names.SECRETS,
    kind_names.CONFIG_MAPS,
    kind_names.SERVICE_ACCOUNTS,
    kind_names.PRIORITY_CLASSES,
    kind_names.LEASES,
    kind_names.ENDPOINTS,
    kind_names.ENDPOINT_SLICES,
)
CONTAINERS = "spec.containers"  # A row about several fields of them together, and so about none.
OF_OBJECTS = ("kind", "apiVersion", "metadata", "status")
MESSAGES = {kind.reference: kind.message for kind in BUILTIN}


# That nothing slips in.


def _walk(message: str, path: str, rows: set[str]) -> Iterator[tuple[str, str, str]]:
    """Each field of a message that no row is about: its path, its message and its name."""
    short = message.rpartition(".")[2]
    fields = find_fields(message)
    for name, field in fields.items():
        if not path and name in OF_OBJECTS:
            continue
        here = f"{path}.{name}" if path else name
        each = f"{here}[*]" if field.repeated else here
        if {here, each} & rows or here.replace("initContainers", "containers") in rows:
            continue
        yield here, short, name
        is_leaf = field.type in SCALARS or field.type in SPECIAL or field.is_map
        if not is_leaf and field.type.rpartition(".")[2] not in WHOLE:
            yield from _walk(field.type, each, rows)


@pytest.mark.parametrize("kind", WALKED, ids=str)
def test_every_field_is_acted_on_or_in_the_table(kind: KindName):
    rows = {row.path for row in FIELDS if row.kind == kind} - {CONTAINERS}
    unknown = [
        path
        for path, message, name in _walk(MESSAGES[kind], "", rows)
        if not any(name in fields.split() for fields in ENFORCED.get(message, {}).values())
    ]
    assert not unknown, "act on it, or add a row to mainstay/api/unenforced.py"


def test_every_module_that_is_said_to_act_names_the_field():
    wrong = []
    for message, modules in ENFORCED.items():
        for module, fields in modules.items():
            if module == INFORMATION:
                continue
            text = (PRODUCT / module).read_text()
            named = set(re.findall(r"\w+", text))
            wrong += [f"{message}.{name}: {module}" for name in fields.split() if name not in named]
    assert not wrong


def test_every_kind_is_acted_on_or_in_the_table():
    stored = {kind.reference.text for kind in BUILTIN}
    table = {row.kind.text for row in KINDS}
    assert stored == table | set(ENFORCED_KINDS)
    assert not table & set(ENFORCED_KINDS)
    for module in ENFORCED_KINDS.values():
        assert module == INFORMATION or (PRODUCT / module).is_file(), module


@pytest.mark.parametrize("row", [row for row in FIELDS if MESSAGES[row.kind]], ids=lambda row: f"{row.kind} {row.path}")
def test_every_row_is_about_a_field_that_exists(row: UnenforcedField):
    message = MESSAGES[row.kind]
    for step in row.path.split("."):
        name, each, _ = step.partition("[*]")
        field = find_fields(message).get(name)
        assert field is not None, f"{row.path}: there is no {name}"
        assert field.repeated == bool(each) or not each
        if field.is_map:
            break
        message = field.type


def test_every_text_says_what_to_do():
    texts = (
        [row.text for row in KINDS] + [row.text for row in SUBRESOURCES] + [row.text for row in FIELDS if row.warned]
    )
    assert [text for text in texts if ": " not in text] == []
    assert [text for text in (*texts, *(row.text for row in FIELDS)) if text[0].isupper() or text.endswith(".")] == []


# That it is found.


def _set(path: str, value: Any) -> Object:
    """An object that has a value at a path, and nothing else."""
    name, _, rest = path.partition(".")
    inner = _set(rest, value) if rest else value
    return {name.removesuffix("[*]"): [inner] if name.endswith("[*]") else inner}


def _value(row: UnenforcedField) -> Any:
    if row.only:
        return row.only[0]
    if row.path == "spec.versions[*].schema":
        return {"openAPIV3Schema": {"properties": {"a": {"x-kubernetes-validations": [{"rule": "true"}]}}}}
    if row.path == CONTAINERS:
        return [{"ports": [{"containerPort": 80}], "securityContext": {"runAsUser": 0}}]
    if row.path == "metadata.name":
        return "no-such-controller"
    if row.path.endswith("emptyDir.medium"):
        return "HugePages-2Mi"
    return {"x": "y"}


@pytest.mark.parametrize("row", [row for row in FIELDS if row.warned], ids=lambda row: f"{row.kind} {row.path}")
def test_every_row_is_found_in_an_object(row: UnenforcedField):
    found = find_unenforced(row.kind.group, row.kind.plural, _set(row.path, _value(row)))
    assert [(each.path, each.text) for each in found] == [(row.path.replace("[*]", "[0]"), row.text)]
    for value in (*row.but, None, "", *([] if row.only else [False])):
        assert find_unenforced(row.kind.group, row.kind.plural, _set(row.path, value)) == []


def test_templates_and_init_containers_are_searched_like_pods():
    probe = {"readinessProbe": {"grpc": {"port": 1}}}
    spec = {"containers": [{"command": ["x"]}, probe], "initContainers": [probe], "subdomain": "s"}
    expected = [
        "containers[1].readinessProbe.grpc (and 1 more): not enforced: the agent does not run it and counts it as "
        "succeeded: use exec, httpGet or tcpSocket",
        "subdomain: not enforced: there is no cluster DNS: read the EndpointSlices of the Service",
    ]
    for group, plural, prefix, obj in (
        ("", "pods", "spec.", {"spec": spec}),
        ("apps", "deployments", "spec.template.spec.", {"spec": {"template": {"spec": spec}}}),
        ("apps", "replicasets", "spec.template.spec.", {"spec": {"template": {"spec": spec}}}),
        ("batch", "jobs", "spec.template.spec.", {"spec": {"template": {"spec": spec}}}),
    ):
        assert [str(each) for each in find_unenforced(group, plural, obj)] == [f"{prefix}{text}" for text in expected]


def test_an_image_matters_where_there_is_no_command():
    def found(*runners: str, **container: Any) -> list[str]:
        pod = {"spec": {"containers": [{"name": "a", "image": "x:1", **container}]}}
        return [each.path for each in find_unenforced("", "pods", pod, runners)]

    assert found("process") == ["spec.containers[0].image"]
    assert found("process", command=["sleep"]) == []
    assert found("pretend") == []


LOW = {"command": ["x"], "ports": [{"containerPort": 8080}, {"containerPort": 1023}]}


@pytest.mark.parametrize(
    ("spec", "is_found"),
    [
        ({"containers": [LOW]}, False),
        ({"containers": [LOW], "securityContext": {"runAsNonRoot": True, "supplementalGroups": []}}, False),
        ({"containers": [LOW], "securityContext": {"fsGroup": 0}}, True),
        ({"containers": [LOW], "securityContext": {"supplementalGroups": [4]}}, True),
        ({"containers": [LOW], "hostUsers": False}, True),
        ({"containers": [LOW], "hostUsers": True}, False),
        ({"containers": [LOW, {"command": ["x"], "securityContext": {"runAsUser": 7}}]}, False),
        ({"containers": [{"command": ["x"]}, {**LOW, "securityContext": {"runAsGroup": 7}}]}, True),
        ({"containers": [{**LOW, "securityContext": {"runAsUser": 0, "privileged": True}}]}, False),
        ({"containers": [{**LOW, "ports": [{"containerPort": 1024}]}], "securityContext": {"runAsUser": 1}}, False),
    ],
)
def test_a_low_port_of_a_pod_that_names_ids_is_found(spec: Object, is_found: bool):
    found = find_unenforced("apps", "deployments", {"spec": {"template": {"spec": spec}}})
    assert [each.path for each in found] == (["spec.template.spec.containers"] if is_found else [])
    assert find_unenforced("", "pods", {"spec": spec}, ["pretend"]) == []


def test_privilege_escalation_matters_only_where_it_is_promised_and_not_given():
    def find(context: Object) -> list[str]:
        pod = {"spec": {"containers": [{"command": ["x"], "securityContext": context}]}}
        return [each.path for each in find_unenforced("", "pods", pod)]

    assert find({"allowPrivilegeEscalation": True}) == ["spec.containers[0].securityContext.allowPrivilegeEscalation"]
    assert find({"allowPrivilegeEscalation": False}) == []
    assert find({"allowPrivilegeEscalation": True, "privileged": True}) == []


def test_a_kind_of_the_table_is_found_as_a_whole():
    (found,) = find_unenforced("apps", "statefulsets", {"spec": {"template": {"spec": {"subdomain": "x"}}}})
    assert str(found) == (
        "stored but not acted on: no controller makes its pods: use a Deployment, or run a controller of your own"
    )


def test_what_promises_isolation_is_refused_unless_it_is_there_already():
    mount = {"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}
    pod = {"spec": {"runtimeClassName": "gvisor", "containers": [{"command": ["x"], "volumeMounts": [mount]}]}}
    causes = find_refused("", "pods", pod, None)
    assert [(each.field, each.message) for each in causes] == [
        (
            "spec.runtimeClassName",
            "Forbidden: not supported: agents have one runner, and no other isolation: remove it",
        ),
        (
            "spec.containers[0].volumeMounts[0].recursiveReadOnly",
            "Forbidden: not supported: mounts below this one stay writable: use IfPossible",
        ),
    ]
    assert find_refused("", "pods", pod, pod) == []
    was = {"spec": {"runtimeClassName": "gvisor"}}
    assert [each.field for each in find_refused("", "pods", pod, was)] == [causes[1].field]
    mount["recursiveReadOnly"] = "IfPossible"
    assert find_refused("", "pods", pod, was) == []


def test_the_runner_of_a_node_is_read_from_its_status():
    assert find_runner({"status": {"nodeInfo": {"containerRuntimeVersion": "mainstay-process://1.0"}}}) == "process"
    assert find_runner({"status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.0"}}}) == ""
    assert find_runner({}) == ""


# That the page says the same.


def _render() -> list[str]:
    lines = ["| kind | field | what happens, and what to do instead |", "|---|---|---|"]
    lines += [f"| {row.kind.kind} | | {row.text} |" for row in KINDS]
    lines += [f"| {row.kind.kind} | `{row.kind.plural}/{row.name}` | {row.text} |" for row in SUBRESOURCES]
    by_text: dict[tuple[str, str], list[str]] = {}
    for row in FIELDS:
        values = f" ({', '.join(map(_yaml, row.only))})" if row.only else ""
        marks = [f"{row.runner} runner"] if row.runner else []
        marks += ["refused: 422"] if row.refused else [] if row.warned else ["no warning: it is a default"]
        marks += ["stays"] if row.stays else []
        text = row.text + (f" ({'; '.join(marks)})" if marks else "")
        by_text.setdefault((row.kind.kind, text), []).append(f"`{row.path}`{values}")
    return [*lines, *(f"| {kind} | {', '.join(paths)} | {text} |" for (kind, text), paths in by_text.items())]


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_page_has_the_table():
    page = (ROOT / "docs" / "compatibility.md").read_text()
    section = page.partition("<!-- unenforced -->\n")[2].partition("<!-- end -->")[0]
    assert section.strip().splitlines() == _render(), "put these lines between the marks in docs/compatibility.md"
