"""What should become of an object that has owners: the table, and that it only depends on what matters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind import Propagation
from mainstay.controllers.garbage.decide import (
    KeepObject,
    LetGo,
    Plan,
    RemoveObject,
    Standing,
    decide,
    finalizers_but,
    find_finalizer,
    owners_but,
)

HOLDS, WAITS, ABSENT = Standing.HOLDS, Standing.WAITS, Standing.ABSENT
UNKNOWN, IMPOSSIBLE = Standing.UNKNOWN, Standing.IMPOSSIBLE
BACKGROUND = RemoveObject(Propagation.BACKGROUND)
FOREGROUND = RemoveObject(Propagation.FOREGROUND)
ORPHAN = RemoveObject(Propagation.ORPHAN)


def an_object(owners: int, **metadata: Any) -> dict[str, Any]:
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"owner-{number}", "uid": f"u{number}"}
        for number in range(owners)
    ]
    return {"metadata": {"name": "x", "uid": "x", "ownerReferences": references, **metadata}}


def what(plan: Plan) -> object:
    """Without the words."""
    return ("keep", plan.is_unsure) if isinstance(plan, KeepObject) else plan


KEEP, LOOK_AGAIN = ("keep", False), ("keep", True)

TABLE = [
    # Owners                        has dependents   what becomes of it
    ((), False, KEEP),
    ((HOLDS,), False, KEEP),
    ((HOLDS, HOLDS), True, KEEP),
    ((ABSENT,), False, BACKGROUND),
    ((ABSENT,), True, BACKGROUND),  # Its own dependents come after it.
    ((ABSENT, ABSENT), False, BACKGROUND),
    ((HOLDS, ABSENT), False, LetGo(frozenset({"u1"}))),
    ((ABSENT, HOLDS, ABSENT), False, LetGo(frozenset({"u0", "u2"}))),
    ((WAITS,), False, BACKGROUND),
    ((WAITS,), True, FOREGROUND),  # The owner waits for its dependents, so it waits for theirs.
    ((WAITS, ABSENT), True, FOREGROUND),
    ((WAITS, ABSENT), False, BACKGROUND),
    ((WAITS, HOLDS), True, LetGo(frozenset({"u0"}))),
    ((WAITS, HOLDS, ABSENT), False, LetGo(frozenset({"u0", "u2"}))),
    ((UNKNOWN,), False, LOOK_AGAIN),
    ((UNKNOWN, ABSENT), False, LOOK_AGAIN),
    ((UNKNOWN, WAITS), True, LOOK_AGAIN),
    ((UNKNOWN, HOLDS), False, KEEP),
    ((UNKNOWN, HOLDS, ABSENT), False, LetGo(frozenset({"u2"}))),
    ((IMPOSSIBLE,), False, KEEP),
    ((IMPOSSIBLE, ABSENT), False, KEEP),
    ((IMPOSSIBLE, HOLDS, ABSENT), False, LetGo(frozenset({"u2"}))),
    ((IMPOSSIBLE, UNKNOWN), False, LOOK_AGAIN),
]


@pytest.mark.parametrize(("standings", "has_dependents", "expected"), TABLE)
def test_what_becomes_of_an_object_depends_on_how_its_owners_stand(standings, has_dependents, expected):
    assert what(decide(an_object(len(standings)), standings, has_dependents=has_dependents)) == expected


@pytest.mark.parametrize(
    ("finalizers", "expected"),
    [
        (["example.dev/x"], BACKGROUND),
        (["orphan"], ORPHAN),
        (["foregroundDeletion"], FOREGROUND),
        (["foregroundDeletion", "orphan"], ORPHAN),
    ],
)
def test_what_an_object_says_about_its_own_dependents_is_kept(finalizers, expected):
    assert decide(an_object(1, finalizers=finalizers), [ABSENT], has_dependents=False) == expected


def test_what_is_leaving_is_left_alone():
    leaving = an_object(1, deletionTimestamp="2026-01-01T00:00:00Z")
    assert what(decide(leaving, [ABSENT], has_dependents=False)) == KEEP


def test_an_owner_named_twice_once_wrongly_holds():
    obj = an_object(2)
    obj["metadata"]["ownerReferences"][1]["uid"] = "u0"
    assert what(decide(obj, [HOLDS, ABSENT], has_dependents=False)) == KEEP


@given(st.lists(st.sampled_from(list(Standing)), max_size=5), st.booleans())
def test_nothing_is_removed_that_an_owner_holds_or_may_hold(standings, has_dependents):
    plan = decide(an_object(len(standings)), standings, has_dependents=has_dependents)
    goes = bool(standings) and all(each in (ABSENT, WAITS) for each in standings)
    assert isinstance(plan, RemoveObject) == goes
    if isinstance(plan, LetGo):
        assert HOLDS in standings
        assert all(standings[int(uid[1:])] in (ABSENT, WAITS) for uid in plan.owners)


def test_what_is_taken_out_is_all_that_changes():
    obj = an_object(3, finalizers=["a", "orphan", "b"])
    assert owners_but(obj, frozenset({"u1"})) == [obj["metadata"]["ownerReferences"][number] for number in (0, 2)]
    assert owners_but(obj, frozenset({"u0", "u1", "u2"})) is None
    assert finalizers_but(obj, "orphan") == ["a", "b"]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, ""),
        ({"finalizers": ["orphan"]}, ""),
        ({"deletionTimestamp": "…", "finalizers": ["x"]}, ""),
        ({"deletionTimestamp": "…", "finalizers": ["x", "foregroundDeletion"]}, "foregroundDeletion"),
        ({"deletionTimestamp": "…", "finalizers": ["foregroundDeletion", "orphan"]}, "orphan"),
    ],
)
def test_what_an_object_on_its_way_out_waits_for(metadata, expected):
    assert find_finalizer({"metadata": metadata}) == expected
