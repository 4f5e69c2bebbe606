"""Decisions and objects to write down: mention what matters."""

import base64
from typing import Any

import msgspec

from mainstay.journal.record import DecisionRecord, Ending, Outcome, Subject, ViewPart

AT = 1_700_000_000_000_000


def a_decision(name: str = "web", number: int = 1, **parts: Any) -> DecisionRecord:
    given: dict[str, Any] = {
        "id": f"replicasets-{number}",
        "at": AT + number,
        "component": "replicasets",
        "build": "test",
        "subject": Subject("replicasets.apps", "default", name, f"uid-{name}", 3),
        "outcome": Outcome(Ending.DONE, "AtWantedSize"),
        "view": (ViewPart("replicasets.apps", 10), ViewPart("pods", 12)),
    }
    return DecisionRecord(**{**given, **parts})


def a_pod(name: str, **spec: Any) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec})


def a_secret(name: str, **values: str) -> bytes:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return msgspec.json.encode({"metadata": {"name": name, "namespace": "default"}, "type": "Opaque", "data": data})
