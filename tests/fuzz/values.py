"""Values that are wrong, extreme or odd; mutations of valid objects; and fields of a kind filled in by its message."""

import json
import re
from random import Random
from typing import Any, Final

from mainstay.api import schema
from mainstay.api.json_values import copied

_RAW: Final = re.compile(r'"@@(.*?)@@"')

NUMBERS: Final = (
    *(0, 1, -1, 2, 10, 65535, 65536, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, -(2**63)),
    *(0.0, -0.0, 1.0, 1.5, 1e308, 5e-324),
)
RAW: Final = (
    *("1e999", "-0", "-0.0", "1.0", "1E2", "1e400", "9" * 30, "9" * 5000, "NaN", "Infinity", "-", "01", "1."),
    *('{"a":1,"a":2}', '{"a":{"b":1},"a":{"b":2}}', r"\"\\ud800\"", r"\"\\ud83d\\ude00\"", r"\"\\u0000\"", r"\"\\x\""),
    *("[" * 90 + "]" * 90, "[" * 200 + "]" * 200, '{"a":' * 120 + "1" + "}" * 120, "[" * 3000 + "]" * 3000),
)
"""What `json.dumps` would not write."""
TEXTS: Final = (
    *("", " ", "a", "b", "c", "A", "-", ".", "..", "...", "a.b", "a/b", "a/b/c", "/", "*", "a" * 63, "a" * 64),
    *(
        "a" * 253,
        "a" * 254,
        "x" * 2000,
        "\0",
        "a\r\nX: 1",
        "\t",
        "é",
        "ﬀ",
        "😀",
        "\u2028",
        "\u202e",
        "\ufeff",
        "a\u0301",
    ),
    *("../..", "%2f", "%00", "null", "true", "5", "-1", "0", "1e400", "1e18", "1Gi", "100m", "1.5", "-1Gi", "9" * 400),
    *("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01"),
    *("2026-01-01T00:00:00+23:59", "0000-00-00T00:00:00Z", "2026-01-01T00:00:00.123456789Z"),
    *(
        "default",
        "kube-system",
        "node-a",
        "system:masters",
        "app=web",
        "a in (b)",
        "!a",
        "^(a+)+$",
        "(?P<a>",
        "[",
        "\\",
    ),
    *(
        "10.0.0.1",
        "::1",
        "fe80::1%lo",
        "10.0.0.0/8",
        "999.1.1.1",
        "http",
        "Always",
        "Never",
        "Exists",
        "In",
        "Foreground",
    ),
    *(
        "50%",
        "-5%",
        "101%",
        "Zm9v",
        "Zg",
        "====",
        "foregroundDeletion",
        "orphan",
        "kubernetes",
        "mainstay.dev/x",
        "$patch",
    ),
    *("[" * 3000, '{"a":' * 1200, '[{"type":1}]', "{}", "{", "[null]"),
    *("v1", "apps/v1", "Pod", "Event", "f:spec", ".", "k:{", 'k:{"name":"c"}', "Apply", "Update", "FieldsV1"),
)
KEYS: Final = (
    *("", "a", "metadata", "spec", "status", "labels", "$patch", "$retainKeys", "$setElementOrder/containers", "a.b/c"),
    *(
        "$deleteFromPrimitiveList/finalizers",
        "\0",
        "é",
        "a\r\nb",
        "apiVersion",
        "kind",
        "name",
        "managedFields",
        "x" * 300,
    ),
    *(f"autoscaling.alpha.kubernetes.io/{each}" for each in ("metrics", "behavior", "conditions", "current-metrics")),
    *("mainstay.dev/health", "kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"),
    *("finalizers", "ownerReferences", "annotations", "generateName", "uid", "resourceVersion", "deletionTimestamp"),
)


def odd_value(chance: Random, depth: int = 0) -> Any:
    match chance.randrange(12):
        case 0:
            return None
        case 1:
            return chance.random() < 0.5
        case 2 | 3:
            return chance.choice(NUMBERS)
        case 4:
            return f"@@{chance.choice(RAW)}@@"
        case 5 if depth < 3:
            return [odd_value(chance, depth + 1) for _ in range(chance.randrange(3))]
        case 6 if depth < 3:
            return {chance.choice(KEYS): odd_value(chance, depth + 1) for _ in range(chance.randrange(3))}
        case _:
            return chance.choice(TEXTS)


def to_json(value: Any) -> bytes:
    """With what stands for raw JSON in its place."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    if "@@" in text:
        text = _RAW.sub(lambda found: found[1].replace('\\"', '"').replace("\\\\", "\\"), text)
    return text.encode(errors="surrogatepass")


def without_raw(value: Any) -> Any:
    """The same for formats that have no such thing."""
    if isinstance(value, dict):
        return {key: without_raw(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_raw(each) for each in value]
    return 7 if isinstance(value, str) and value.startswith("@@") else value


class _Place:
    """Somewhere in a value, to put something else there."""

    def __init__(self, parent: Any, step: Any) -> None:
        self.parent = parent
        self.step = step

    @property
    def value(self) -> Any:
        return self.parent[self.step]


def _places(value: Any) -> list[_Place]:
    found = []
    level = [value] if isinstance(value, dict | list) else []
    while level:
        one = level.pop()
        steps = list(one) if isinstance(one, dict) else range(len(one))
        for step in steps:
            found.append(_Place(one, step))
            if isinstance(one[step], dict | list):
                level.append(one[step])
    return found


def mutated(chance: Random, obj: Any, message: str, times: int = 1) -> Any:
    """A copy of an object with something wrong, odd, missing or added somewhere in it."""
    new = copied(obj)
    for _ in range(times):
        if message and isinstance(new, dict) and chance.random() < 0.35:
            _grow(chance, new, message)
            continue
        places = _places(new)
        if chance.random() < 0.3 and isinstance(new, dict):  # What all kinds have deserves more.
            metadata = new.get("metadata")
            if not isinstance(metadata, dict):
                metadata = new["metadata"] = {}
            name = chance.choice(tuple(schema.find_fields(schema.OBJECT_META)))
            metadata[name] = (
                odd_value(chance) if chance.random() < 0.6 else _generated(chance, schema.OBJECT_META, name)
            )
            continue
        if not places:
            return odd_value(chance)
        place = chance.choice(places)
        match chance.randrange(6):
            case 0:
                del place.parent[place.step]
            case 1 if isinstance(place.value, list) and place.value:
                place.value.append(copied(chance.choice(place.value)))
            case 2 if isinstance(place.value, dict):
                place.value[chance.choice(KEYS)] = odd_value(chance)
            case 3 if len(places) > 1:
                place.parent[place.step] = copied(chance.choice(places).value) if _is_small(new) else None
            case _:
                place.parent[place.step] = odd_value(chance)
    return new


def _is_small(value: Any) -> bool:
    return len(_places(value)) < 2000


def _grow(chance: Random, obj: dict[str, Any], message: str) -> None:
    """Fill in one field that the message has, somewhere in the object."""
    while True:
        fields = schema.find_fields(message)
        if not fields:
            return
        name = chance.choice(tuple(fields))
        field, inner = fields[name], obj.get(name)
        if field.type not in schema.SCALARS and field.type not in schema.SPECIAL and chance.random() < 0.8:
            if field.repeated and isinstance(inner, list) and inner and isinstance(inner[0], dict):
                obj, message = chance.choice([each for each in inner if isinstance(each, dict)]), field.type
                continue
            if isinstance(inner, dict) and not field.is_map:
                obj, message = inner, field.type
                continue
        obj[name] = _generated(chance, message, name)
        return


def _generated(chance: Random, message: str, name: str, depth: int = 0) -> Any:
    field = schema.find_fields(message)[name]
    if field.is_map:
        return {chance.choice(TEXTS[:20]): _one(chance, field.type, depth) for _ in range(chance.randrange(3))}
    if field.repeated:
        return [_one(chance, field.type, depth) for _ in range(chance.randrange(3))]
    return _one(chance, field.type, depth)


def _one(chance: Random, type_: str, depth: int) -> Any:
    if chance.random() < 0.06:
        return odd_value(chance, 2)
    if type_ in ("int32", "int64"):
        return chance.choice((0, 1, 2, 5, 80, -1, 2**31 - 1, 2**31))
    if type_ == "double":
        return chance.choice((0.5, 1, -1))
    if type_ == "bool":
        return chance.random() < 0.5
    if type_ == "bytes":
        return chance.choice(("", "Zm9v", "Zg", "x"))
    if type_ == schema.TIME:
        return chance.choice(("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5+01:00", None, "x"))
    if type_ == schema.MICRO_TIME:
        return chance.choice(("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00Z", None))
    if type_ == schema.QUANTITY:
        return chance.choice(("1", "100m", "1Gi", "0", "-1", 5, 1.5, "1e400", "1e18", "x", "9" * 20))
    if type_ == schema.INT_OR_STRING:
        return chance.choice((80, "http", "50%", 0, -1, "x" * 20))
    if type_ in schema.STRING_LISTS:
        return ["get", chance.choice(TEXTS)]
    if type_ in schema.SPECIAL:
        return chance.choice(({}, {"a": 1}, [], "x", 1, True))
    if type_ == "string":
        return chance.choice(TEXTS)
    fields = tuple(schema.find_fields(type_))
    if depth > 3 or not fields:
        return {}
    return {name: _generated(chance, type_, name, depth + 1) for name in chance.sample(fields, min(len(fields), 2))}


_PATHS: Final = (
    *(".", "f:metadata", "f:spec", "f:labels", "f:a", "f:", "f:containers", 'k:{"name":"c"}', "k:{", "k:[]", "k:{}"),
    *(
        "k:" + "[" * 1500,
        "k:" + '{"a":' * 1200,
        'k:{"name":1.5}',
        'v:"x"',
        "v:",
        "v:1e999",
        "i:0",
        "i:-1",
        "i:x",
        "x:y",
        "",
        "f",
        "f:\0",
        "f:x" * 100,
    ),
)


def odd_managed_fields(chance: Random, version: str) -> Any:
    """Entries of `metadata.managedFields`, most of them almost right."""
    entries = []
    for _ in range(chance.choice((1, 1, 2, 5))):
        entry: dict[str, Any] = {
            "manager": chance.choice(("me", "you", "", chance.choice(TEXTS))),
            "operation": chance.choice(("Apply", "Update", "Update", "x", "")),
            "apiVersion": chance.choice((version, version, "v9", "", "x/y/z")),
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": chance.choice(("FieldsV1", "FieldsV1", "FieldsV1", "x", "")),
            "fieldsV1": _odd_fields(chance, 0),
        }
        if chance.random() < 0.3:
            entry["subresource"] = chance.choice(("status", "scale", "", "x"))
        if chance.random() < 0.3:
            entry.pop(chance.choice(tuple(entry)))
        entries.append(entry if chance.random() < 0.95 else odd_value(chance))
    return entries


def _odd_fields(chance: Random, depth: int) -> Any:
    if chance.random() < 0.05 or depth > 6:
        return odd_value(chance, 3)
    return {chance.choice(_PATHS): _odd_fields(chance, depth + 1) for _ in range(chance.randrange(4))}
