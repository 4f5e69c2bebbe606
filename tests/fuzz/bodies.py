"""Bodies: valid objects, mutations of them, all kinds of patches, in every encoding, some of them damaged."""

import contextlib
import json
from random import Random
from typing import Any, Final

import msgspec
import yaml

from mainstay.api.json_values import copied
from mainstay.api.kind import Kind, Object
from mainstay.journal.record import encode as encode_record
from mainstay.journal.record import joined
from mainstay.journal.wire import COMPRESSED, RECORDS
from tests.api.encode_protobuf import encode, envelope
from tests.fuzz.queries import JSON, PROTOBUF, YAML
from tests.fuzz.samples import CRDS, SAMPLES, SUBRESOURCES, odd_schema
from tests.fuzz.values import KEYS, TEXTS, mutated, odd_managed_fields, odd_value, to_json, without_raw
from tests.journal.builders import a_decision

APPLY: Final = "application/apply-patch+yaml"
_PATCHES: Final = ("json", "json", "merge", "merge", "strategic-merge", "apply", "apply")
_ODD_YAML: Final = (
    *("a: &x [1]\nb: *x\n", "x: !!binary Zg==\n", "1: 2\n", "a: b\na: c\n", "y: 0o17\n", "z: .inf\n", "n: .nan\n"),
    *(
        "<<: {q: 1}\n",
        "---\n",
        "...\n---\na: 1\n",
        "? [1, 2]\n: x\n",
        "t: 2026-01-01\n",
        "d: !!python/object:os.x {}\n",
    ),
    "a: &a [x]\n"
    + "".join(
        f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}, *{a}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ),
    "q: " + "[" * 2000 + "]" * 2000 + "\n",
)


class BodySource:
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def build_object(self, kind: Kind, namespace: str, name: str, subresource: str) -> Any:
        """What to send as the body of a POST or PUT: valid, or a mutation of that."""
        chance = self._chance
        sample = SUBRESOURCES.get(subresource) if subresource else None
        if sample is None:
            if (kind.group, kind.plural) == ("apiextensions.k8s.io", "customresourcedefinitions"):
                sample = next((each for each in CRDS if each["metadata"]["name"] == name), CRDS[0])
                if chance.random() < 0.4:
                    sample = odd_schema(chance, sample)
            else:
                sample = SAMPLES.get((kind.group, kind.plural), {})
        obj: dict[str, Any] = {"apiVersion": kind.group_version, "kind": kind.kind, **copied(sample)}
        if subresource in SUBRESOURCES or chance.random() < 0.1:
            del obj["apiVersion"], obj["kind"]
        metadata = obj.setdefault("metadata", {})
        metadata["name"] = name
        if chance.random() < 0.05:
            metadata["generateName"] = chance.choice(("x-", "X_", *TEXTS))
            metadata.pop("name")
        if kind.namespaced and chance.random() < 0.3:
            metadata["namespace"] = namespace
        if chance.random() < 0.2:
            metadata["labels"] = {"app": chance.choice(("web", "x"))}
        if chance.random() < 0.05:
            metadata["finalizers"] = ["fuzz.dev/hold"]
        if chance.random() < 0.04:
            metadata["managedFields"] = odd_managed_fields(chance, kind.group_version)
        if kind.plural == "pods" and "spec" in obj and not subresource and chance.random() < 0.2:
            obj["spec"]["nodeName"] = "node-a"
        if chance.random() < 0.5:
            return obj
        return mutated(chance, obj, kind.message, chance.choice((1, 1, 1, 2, 3, 6)))

    def encode(self, kind: Kind, obj: Any, subresource: str) -> tuple[str, bytes]:
        chance = self._chance
        roll = chance.random()
        if roll < 0.15:
            return YAML, self._yaml(obj)
        if roll < 0.35 and kind.message and isinstance(obj, dict) and not subresource:
            with contextlib.suppress(Exception):  # Not everything can be said in protobuf.
                return PROTOBUF, envelope(kind.group_version, kind.kind, encode(kind.message, without_raw(obj)))
        return JSON, to_json(obj)

    def _yaml(self, obj: Any) -> bytes:
        obj = without_raw(obj)
        if self._chance.random() < 0.5:
            return json.dumps(obj).encode()
        text = yaml.dump(obj, allow_unicode=True, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))
        return (text + (self._chance.choice(_ODD_YAML) if self._chance.random() < 0.2 else "")).encode(errors="replace")

    def build_patch(self, kind: Kind, namespace: str, name: str, subresource: str) -> tuple[str, bytes]:
        chance = self._chance
        how = chance.choice(_PATCHES)
        if how == "json":
            patch: Any = [self._operation(kind) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
            if chance.random() < 0.03:
                patch = odd_value(chance)
            return "application/json-patch+json", to_json(patch)
        patch = self.build_object(kind, namespace, name, subresource)
        if isinstance(patch, dict) and how != "apply":
            kept = [each for each in patch if chance.random() < 0.5]
            patch = {each: patch[each] for each in kept}
            if chance.random() < 0.5:
                patch["metadata"] = mutated(chance, {"labels": {"app": "web", "x": "y"}, "annotations": {"a": "b"}}, "")
            if how == "strategic-merge" and chance.random() < 0.3:
                patch[chance.choice(KEYS)] = chance.choice(("delete", "replace", "merge", odd_value(chance)))
        if how == "apply":
            return APPLY, self._yaml(patch) if chance.random() < 0.3 else to_json(patch)
        return f"application/{how}-patch+json", to_json(patch)

    def _operation(self, kind: Kind) -> Any:
        chance = self._chance
        sample: Object = {
            "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "finalizers": ["x"], "name": "a"}
        }
        sample |= copied(SAMPLES.get((kind.group, kind.plural), {}))
        path = ""
        value: Any = sample
        while isinstance(value, dict | list) and value and chance.random() < 0.85:
            steps = list(value) if isinstance(value, dict) else range(len(value))
            step: Any = chance.choice(steps)
            value = value[step]
            path += "/" + str(step).replace("~", "~0").replace("/", "~1")
        if chance.random() < 0.25:
            path += "/" + chance.choice((*KEYS, "-", "0", "99", "~", "~2")).replace("/", "~1")
        if chance.random() < 0.25:
            fields = (
                "labels",
                "annotations",
                "finalizers",
                "ownerReferences",
                "managedFields",
                "generation",
                "uid",
                "name",
            )
            path = "/metadata/" + chance.choice(fields)
        operation: dict[str, Any] = {
            "op": chance.choice(("add", "add", "add", "replace", "remove", "test", "copy", "move")),
            "path": path,
        }
        if operation["op"] in ("copy", "move"):
            operation["from"] = chance.choice(("/metadata", "/spec", "", "/metadata/labels", path))
        else:
            operation["value"] = odd_value(chance) if chance.random() < 0.6 else mutated(chance, value, "")
        return operation if chance.random() < 0.97 else odd_value(chance)

    def build_delete_options(self) -> Any:
        chance = self._chance
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents", "preconditions", "dryRun"):
            if chance.random() < 0.3:
                options[name] = odd_value(chance)
        return options

    def build_records(self) -> tuple[str, bytes]:
        """Records for the journal, as components send them."""
        chance = self._chance
        records = [encode_record(a_decision(chance.choice(TEXTS), number)) for number in range(chance.randrange(4))]
        for number, record in enumerate(records):
            if chance.random() < 0.5:
                fields = msgspec.msgpack.decode(record)
                records[number] = msgspec.msgpack.encode(without_raw(mutated(chance, {"r": fields}, "")).get("r"))
        body = joined(records) if chance.random() < 0.8 else b"\x91" * chance.choice((5, 3000))
        return chance.choice((RECORDS, RECORDS, RECORDS, COMPRESSED)), body

    def damage(self, body: bytes) -> bytes:
        chance = self._chance
        broken = bytearray(body)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(broken) + 1)
            match chance.randrange(4):
                case 0 if at < len(broken):
                    broken[at] = chance.randrange(256)
                case 1:
                    del broken[at : at + chance.randint(1, 20)]
                case 2:
                    broken[at:at] = chance.choice((b"\xff", b"\x00", b"\xed\xa0\x80", b'"', b"{", b"[", b",", b"\\"))
                case _:
                    broken[at:at] = broken[at : at + chance.randint(1, 30)]
            if not broken:
                break
        return bytes(broken)
