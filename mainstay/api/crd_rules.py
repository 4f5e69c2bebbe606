"""What a CustomResourceDefinition may say, and the words for it when it says something else. Plain functions.

Whether its schemas are structural is in schema_rules.py. What the definition leads to is in custom.py.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mainstay.api import names
from mainstay.api.custom import is_established
from mainstay.api.errors import StatusCause, invalid_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.schema_rules import violations
from mainstay.api.tables.jsonpath import compile_path

_APPROVAL: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = ("k8s.io", "kubernetes.io")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_IMMUTABLE: Final = "field is immutable"


def problems_of_crd(new: Object, old: Object | None) -> Sequence[StatusCause]:
    """What is wrong with a definition, given the one it would replace. Defaults have been filled in."""
    found = _problems_of_shape(new)
    if found:
        return found
    spec = new["spec"]
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        found.append(invalid_value("spec.preserveUnknownFields", True, detail))
    for index, version in enumerate(spec["versions"]):
        found += _schema(version, f"spec.versions[{index}].schema.openAPIV3Schema")
    if old is not None:
        found += _changes(spec, old)
    for index, stored in enumerate((new.get("status") or {}).get("storedVersions") or ()):
        if stored not in [each["name"] for each in spec["versions"]]:
            found.append(invalid_value(f"status.storedVersions[{index}]", stored, "missing from spec.versions"))
    return found


def is_usable(crd: Object) -> bool:
    """Whether kinds can be made of a definition. What its schemas say is another matter."""
    return not _problems_of_shape(crd)


def _problems_of_shape(crd: Object) -> list[StatusCause]:
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return [required("spec")]
    return list(_malformed(spec)) or [*_group(crd, spec), *_names(spec), *_versions(spec)]


def _malformed(spec: Object) -> Iterator[StatusCause]:
    """What is not of the type that everything below relies on."""
    expected: tuple[tuple[str, type], ...] = (("group", str), ("scope", str), ("names", dict), ("versions", list))
    for name, kind in expected:
        if spec.get(name) is not None and not isinstance(spec[name], kind):
            yield invalid_value(f"spec.{name}", "", "has the wrong type")
            return
    for name, value in (spec.get("names") or {}).items():
        is_list = name in ("shortNames", "categories")
        if value is not None and not (_is_texts(value) if is_list else isinstance(value, str)):
            yield invalid_value(f"spec.names.{name}", "", "has the wrong type")
    for index, version in enumerate(spec.get("versions") or ()):
        if not isinstance(version, dict) or not isinstance(version.get("name", ""), str):
            yield invalid_value(f"spec.versions[{index}]", "", "has the wrong type")
            continue
        for name in ("schema", "subresources"):
            if version.get(name) is not None and not isinstance(version[name], dict):
                yield invalid_value(f"spec.versions[{index}].{name}", "", "has the wrong type")
        for name in ("additionalPrinterColumns", "selectableFields"):
            value = version.get(name)
            if value is not None and not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
                yield invalid_value(f"spec.versions[{index}].{name}", "", "has the wrong type")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _group(new: Object, spec: Object) -> Iterator[StatusCause]:
    group, plural = spec.get("group") or "", (spec.get("names") or {}).get("plural") or ""
    name = new["metadata"].get("name") or ""
    if name != f"{plural}.{group}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if not group:
        yield required("spec.group")
    elif names.subdomain(group):
        for problem in names.subdomain(group):
            yield invalid_value("spec.group", group, problem)
    elif "." not in group:
        yield invalid_value("spec.group", group, "should be a domain with at least one dot")
    is_protected = any(f".{group}".endswith(f".{each}") for each in _PROTECTED)
    if is_protected and not (new["metadata"].get("annotations") or {}).get(_APPROVAL):
        detail = f'protected groups must have approval annotation "{_APPROVAL}", see '
        detail += "https://github.com/kubernetes/enhancements/pull/1111"
        yield required(f"metadata.annotations[{_APPROVAL}]", detail)
    if not spec.get("scope"):
        yield required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))


def _names(spec: Object) -> Iterator[StatusCause]:
    given = spec.get("names") or {}
    for name in ("plural", "singular", "kind", "listKind"):
        value = given.get(name) or ""
        if not value:
            yield required(f"spec.names.{name}")
            continue
        folded = value.lower() if name in ("kind", "listKind") else value
        for problem in names.label_1035(folded):
            detail = f"may have mixed case, but should otherwise match: {problem}" if folded != value else problem
            yield invalid_value(f"spec.names.{name}", value, detail)
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid_value("spec.names.listKind", given["listKind"], "kind and listKind may not be the same")
    for name in ("shortNames", "categories"):
        for index, value in enumerate(given.get(name) or ()):
            for problem in names.label_1035(value):
                yield invalid_value(f"spec.names.{name}[{index}]", value, problem)


def _versions(spec: Object) -> Iterator[StatusCause]:
    versions = spec.get("versions") or []
    if not versions:
        yield required("spec.versions", "must have at least one version")
        return
    seen: dict[str, None] = {}
    for index, version in enumerate(versions):
        where, name = f"spec.versions[{index}]", version.get("name") or ""
        for problem in names.label_1035(name):
            yield invalid_value(f"{where}.name", name, problem)
        if name in seen:
            yield invalid_value("spec.versions", name, "must contain unique version names")
        seen[name] = None
        yield from _subresources(version, where)
        yield from _columns(version, where)
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value("spec.versions", "", "must have exactly one version marked as storage version")


def _schema(version: Object, path: str) -> Iterator[StatusCause]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        yield required(path, "schemas are required")
    elif not isinstance(schema, dict):
        yield invalid_value(path, "", "must be of type object")
    else:
        yield from violations(schema, path)


def _subresources(version: Object, where: str) -> Iterator[StatusCause]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return
    if not isinstance(scale, dict):
        yield invalid_value(f"{where}.subresources.scale", "", "has the wrong type")
        return
    beginnings = {"specReplicasPath": ".spec.", "statusReplicasPath": ".status."}
    for name, beginning in beginnings.items():
        path = scale.get(name) or ""
        if not path:
            yield required(f"{where}.subresources.scale.{name}")
        elif not isinstance(path, str) or not path.startswith(beginning):
            detail = f"should be a json path under {beginning.rstrip('.')}"
            yield invalid_value(f"{where}.subresources.scale.{name}", path, detail)
    selector = scale.get("labelSelectorPath")
    if selector and (not isinstance(selector, str) or not selector.startswith((".spec.", ".status."))):
        detail = "should be a json path under either .spec or .status"
        yield invalid_value(f"{where}.subresources.scale.labelSelectorPath", selector, detail)


def _columns(version: Object, where: str) -> Iterator[StatusCause]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        here = f"{where}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield required(f"{here}.name")
        if not column.get("type"):
            yield required(f"{here}.type", f"must be one of {','.join(_COLUMN_TYPES)}")
        elif column["type"] not in _COLUMN_TYPES:
            yield invalid_value(f"{here}.type", column["type"], f"must be one of {','.join(_COLUMN_TYPES)}")
        if not column.get("jsonPath"):
            yield required(f"{here}.jsonPath")
    for index, field in enumerate(version.get("selectableFields") or ()):
        path = field.get("jsonPath") or ""
        here = f"{where}.selectableFields[{index}].jsonPath"
        if not path:
            yield required(here)
        elif not isinstance(path, str) or not path.startswith(".") or compile_path(path) is None:
            yield invalid_value(here, path, "is an invalid path")


def _changes(spec: Object, old: Object) -> Iterator[StatusCause]:
    before = old.get("spec") or {}
    given, had = spec.get("names") or {}, before.get("names") or {}
    pairs = [("spec.group", spec.get("group"), before.get("group"))]
    pairs.append(("spec.names.plural", given.get("plural"), had.get("plural")))
    if is_established(old):
        pairs.append(("spec.scope", spec.get("scope"), before.get("scope")))
        pairs.append(("spec.names.kind", given.get("kind"), had.get("kind")))
    for path, value, earlier in pairs:
        if value != earlier:
            yield invalid_value(path, value, _IMMUTABLE)
