"""From a CustomResourceDefinition to the kinds it defines, and to what its own status has to say.

Every version that is served becomes a `Kind` like any other. All versions of a definition are views of the same stored
objects, which differ only in `apiVersion`: there is no conversion, and a webhook that a definition names is not asked.

A kind's `defaults` also drop unknown fields and forbidden nulls, as Kubernetes does while it reads an object: so that
also happens to a status that is written through its own address, of which `prepare` does not hear.

    build_versions(crd)                          the versions, each with its kind, schema and scale paths
    acceptance(crd, others, builtin, now)     the status: which names are accepted, is it established
    defaults_for_crd, prepare_crd             for the definition's own way into the store

What a definition may say at all is in crd_rules.py; who follows definitions while the server runs, in
server/crd/definitions.py.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.errors import StatusCause
from mainstay.api.json_values import copied
from mainstay.api.kind import SCALE, STATUS, Kind, Object, Subresource
from mainstay.api.schema_rules import PRESERVES, violations
from mainstay.api.structural import Schema, compile_schema
from mainstay.api.tables import custom_table
from mainstay.api.tables.jsonpath import Astray, compile_path

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""
ESTABLISHED: Final = "Established"
NAMES_ACCEPTED: Final = "NamesAccepted"
NON_STRUCTURAL: Final = "NonStructuralSchema"
TERMINATING: Final = "Terminating"

_ANYTHING: Final = Schema({"type": "object", PRESERVES: True})
_NAMES: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where an object keeps what its Scale shows, each as a sequence of fields. An empty one is not there."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CustomVersion:
    """One served version of a definition."""

    kind: Kind
    schema: Schema
    scale: ScalePaths | None


def build_versions(crd: Object) -> list[CustomVersion]:
    """Every version that is served, under the names that were accepted, or those that it asks for until then."""
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or {}
    names = names if names.get("plural") and names.get("kind") else spec["names"]
    return [_version(crd, each, names) for each in spec.get("versions") or () if each.get("served")]


def _version(crd: Object, version: Object, names: Object) -> CustomVersion:
    schema = _schema(version)
    scale = _scale(version)
    asked = version.get("subresources") or {}
    has_status = asked.get("status") is not None
    subresources: list[Subresource] = [STATUS] if has_status else []
    if scale is not None:
        subresources.append(SCALE)
    table = custom_table(version.get("additionalPrinterColumns") or ())
    kind = Kind(
        group=crd["spec"]["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular") or names["kind"].lower(),
        namespaced=crd["spec"].get("scope") != "Cluster",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(subresources),
        defaults=_defaults(schema),
        prepare=_keep_status if has_status else _take_status,
        validate=_validate(schema),
        columns=table.columns,
        cells=table.cells,
        selectable=_selectable(version.get("selectableFields") or ()),
        put_needs_version=True,
        is_custom=True,
    )
    return CustomVersion(kind, schema, scale)


def _schema(version: Object) -> Schema:
    """A definition that says nothing usable leaves its objects as they are."""
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        return _ANYTHING
    try:
        return compile_schema(schema)
    except ValueError:
        return _ANYTHING  # Told in the status: see `acceptance`.


def _scale(version: Object) -> ScalePaths | None:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return None
    return ScalePaths(
        _fields(scale.get("specReplicasPath")),
        _fields(scale.get("statusReplicasPath")),
        _fields(scale.get("labelSelectorPath")),
    )


def _fields(path: str | None) -> tuple[str, ...]:
    """`.spec.replicas` as fields. Such paths have no other steps."""
    return tuple(each for each in (path or "").split(".") if each)


def _defaults(schema: Schema) -> Callable[[Object], None]:
    def defaults(new: Object) -> None:
        schema.prune(new)
        schema.default(new)

    return defaults


def _validate(schema: Schema) -> Callable[[Object, Object | None], Sequence[StatusCause]]:
    def validate(new: Object, old: Object | None) -> Sequence[StatusCause]:
        return schema.validate(new, old)

    return validate


def _take_status(new: Object, old: Object | None) -> None:
    """Without an address of its own, the status is a field like any other."""


def _keep_status(new: Object, old: Object | None) -> None:
    if old is not None and "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def _selectable(fields: Sequence[Object]) -> dict[str, Callable[[Object], str]] | None:
    found = {}
    for field in fields:
        path = field.get("jsonPath") or ""
        found[path.removeprefix(".")] = _text_at(path)
    return found or None


def _text_at(written: str) -> Callable[[Object], str]:
    path = compile_path(written)

    def read(obj: Object) -> str:
        try:
            values = path.find(obj) if path is not None else ()
        except Astray:
            return ""
        value = values[0] if values else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value) if isinstance(value, str | int) else ""

    return read


def defaults_for_crd(crd: Object) -> None:
    """What a definition means when it does not say."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = names["kind"] + "List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def prepare_crd(new: Object, old: Object | None) -> None:
    """The status of a new definition knows which version is stored; others keep what they have, and this one more."""
    storage = storage_version(new)
    if old is None:
        fresh: Object = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        new["status"] = fresh
    elif "status" in old:
        new["status"] = copied(old["status"])
    else:
        new["status"] = {}
    stored = new["status"].get("storedVersions") or []
    if storage and storage not in stored:
        new["status"]["storedVersions"] = [*stored, storage]


def storage_version(crd: Object) -> str:
    versions = (crd.get("spec") or {}).get("versions") or ()
    return next((each.get("name", "") for each in versions if isinstance(each, dict) and each.get("storage")), "")


def condition(crd: Object, name: str) -> Object | None:
    """The condition of this type."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == name), None)


def is_established(crd: Object) -> bool:
    return (condition(crd, ESTABLISHED) or {}).get("status") == "True"


def is_terminating(crd: Object) -> bool:
    return "deletionTimestamp" in crd["metadata"]


def with_condition(status: Object, name: str, truth: str, reason: str, message: str, now: str) -> Object:
    """The status with this condition. Its time only changes when its truth does."""
    conditions = list(status.get("conditions") or ())
    index = next((index for index, each in enumerate(conditions) if each.get("type") == name), len(conditions))
    old = conditions[index] if index < len(conditions) else {}
    since = old.get("lastTransitionTime") if old.get("status") == truth else None
    new = {"type": name, "status": truth, "lastTransitionTime": since or now, "reason": reason, "message": message}
    conditions[index : index + 1] = [new]
    return {**status, "conditions": conditions}


def without_condition(status: Object, name: str) -> Object:
    if not any(each.get("type") == name for each in status.get("conditions") or ()):
        return status
    return {**status, "conditions": [each for each in status["conditions"] if each.get("type") != name]}


def acceptance(crd: Object, others: Iterable[Object], builtin: Iterable[Kind], now: str) -> Object:
    """What the status of a definition must become, given the other definitions and the kinds that are always there.

    A name that another definition of the group has got stays with it. What was accepted before stays accepted, and who
    was established once stays so. Asking again changes nothing.
    """
    status = dict(crd.get("status") or {})
    names, reason, message = _accepted_names(crd, others, builtin)
    is_accepted = not reason
    status["acceptedNames"] = names
    truth = "True" if is_accepted else "False"
    status = with_condition(
        status, NAMES_ACCEPTED, truth, reason or "NoConflicts", message or "no conflicts found", now
    )
    if not is_established(crd):
        if is_accepted:
            text = "the initial names have been accepted"
            status = with_condition(status, ESTABLISHED, "True", "InitialNamesAccepted", text, now)
        else:
            status = with_condition(status, ESTABLISHED, "False", "NotAccepted", "not all names are accepted", now)
    problems = _structural_problems(crd)
    if problems:
        status = with_condition(status, NON_STRUCTURAL, "True", "Violations", problems, now)
    else:
        status = without_condition(status, NON_STRUCTURAL)
    stored, storage = status.get("storedVersions") or [], storage_version(crd)
    status["storedVersions"] = stored if storage in stored or not storage else [*stored, storage]
    return status


def _accepted_names(crd: Object, others: Iterable[Object], builtin: Iterable[Kind]) -> tuple[Object, str, str]:
    """The names that a definition has from now on; and the reason and the words for it, if it wanted others."""
    group, asked = crd["spec"]["group"], crd["spec"]["names"]
    had = (crd.get("status") or {}).get("acceptedNames") or {}
    resources, kinds = _used_names(group, others, builtin)
    new: dict[str, Any] = {name: had[name] for name in _NAMES if had.get(name)}
    reason = message = ""
    for name, used in (("plural", resources), ("singular", resources), ("kind", kinds), ("listKind", kinds)):
        wanted = asked.get(name, "")
        if wanted != had.get(name) and wanted in used:
            reason, message = f"{name[0].upper()}{name[1:]}Conflict", f'"{wanted}" is already in use'
        else:
            new[name] = wanted
    conflicts = [
        f'"{each}" is already in use'
        for each in asked.get("shortNames") or ()
        if each in resources and each not in (had.get("shortNames") or ())
    ]
    if conflicts:
        reason = "ShortNamesConflict"
        message = conflicts[0] if len(conflicts) == 1 else "[" + ", ".join(conflicts) + "]"
    else:
        new["shortNames"] = asked.get("shortNames")
    new["categories"] = asked.get("categories")
    accepted = {name: new[name] for name in _NAMES if new.get(name)}
    return {"plural": "", "kind": "", **accepted} if "plural" not in accepted else accepted, reason, message


def _used_names(group: str, others: Iterable[Object], builtin: Iterable[Kind]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for crd in others:
        if crd["spec"].get("group") != group:
            continue
        names = (crd.get("status") or {}).get("acceptedNames") or {}
        resources.update(each for each in (names.get("plural"), names.get("singular")) if each)
        resources.update(names.get("shortNames") or ())
        kinds.update(each for each in (names.get("kind"), names.get("listKind")) if each)
    for kind in builtin:
        if kind.group == group:
            resources.update((kind.plural, kind.singular, *kind.short_names))
            kinds.update((kind.kind, f"{kind.kind}List"))
    return resources, kinds


def _structural_problems(crd: Object) -> str:
    found = []
    for index, version in enumerate(crd["spec"].get("versions") or ()):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema:
            found += violations(schema, f"spec.versions[{index}].schema.openAPIV3Schema")
    texts = [f"{cause.field}: {cause.message}" for cause in found]
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]" if texts else ""
