"""Random families, with circles and wrong references: whatever the order, in the end exactly the right ones are left.

Right is told from who named whom, whom the user deleted and how, and who is left:

- what the user deleted is gone;
- anything else is gone only if it named owners, all of them are gone (or were never there), and not all of them let it
  go; and this follows from what the user did, not in a circle;
- what is left has an owner that is left, or never had one, or was let go by one.
"""

import contextlib
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mainstay.api.kind import Propagation
from mainstay.api.kind_names import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from mainstay.client.errors import NotFound
from mainstay.env import tasks
from tests.controllers.garbage.owned import Household, a_household, named
from tests.controllers.running import CONTROLLER

pytestmark = pytest.mark.deep

WAYS = (Propagation.BACKGROUND, Propagation.FOREGROUND, Propagation.ORPHAN)


class Member(NamedTuple):
    kind: Any
    namespace: str
    owners: tuple[int, ...]
    """Numbers of others; they may come later, so there may be circles."""
    blocks: bool


class Family(NamedTuple):
    members: tuple[Member, ...]
    deleted: tuple[tuple[int, Propagation, int], ...]
    """Which, how, and after how many tenths of a second."""
    restarts_at: int
    """In tenths of a second; -1: never."""


@st.composite
def families(draw: st.DrawFn) -> Family:
    count = draw(st.integers(2, 8))
    members = tuple(
        Member(
            draw(st.sampled_from([CONFIG_MAPS, SERVICE_ACCOUNTS])),
            draw(st.sampled_from(["default", "default", "default", "other"])),
            tuple(sorted(draw(st.sets(st.integers(0, count - 1), max_size=2)) - {number})),
            draw(st.booleans()),
        )
        for number in range(count)
    )
    deleted = draw(st.dictionaries(st.integers(0, count - 1), st.sampled_from(WAYS), min_size=1, max_size=3))
    steps = tuple([(number, way, draw(st.integers(0, 8))) for number, way in deleted.items()])
    return Family(members, steps, draw(st.sampled_from([-1, 1, 4, 9])))


@given(families())
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
async def test_exactly_the_right_ones_are_left(sim, family):
    async with a_household(sim) as home:
        await home.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        # Before any look, so that circles can be made.
        made = [
            await home.make(f"m{number}", kind=each.kind, namespace=each.namespace)
            for number, each in enumerate(family.members)
        ]
        for number, each in enumerate(family.members):
            if each.owners:
                references = [named(made[owner], blocks=each.blocks) for owner in each.owners]
                body = {"metadata": {"ownerReferences": references}}
                await home.client.patch(each.kind, f"m{number}", each.namespace, body)
        steps = sorted([(after, number, way) for number, way, after in family.deleted], key=lambda each: each[:2])
        for tenth in range(10):
            for after, number, way in steps:
                if after == tenth:
                    await delete(home, family.members[number], number, way)
            if tenth == family.restarts_at:
                home.world.programs[CONTROLLER].crash()
                home.world.after(timedelta(seconds=1), home.world.programs[CONTROLLER].start)
            await tasks.sleep(timedelta(milliseconds=100))
        await home.at_rest()
        left = {
            number
            for number, each in enumerate(family.members)
            if await home.get(f"m{number}", each.kind, each.namespace) is not None
        }
        names = {number: await find_owners(home, family.members[number], number) for number in left}
    require_right(family, left, names)


async def delete(home: Household, member: Member, number: int, way: Propagation) -> None:
    with contextlib.suppress(NotFound):
        await home.client.delete(member.kind, f"m{number}", member.namespace, propagation=way)


async def find_owners(home: Household, member: Member, number: int) -> list[int]:
    found = await home.get(f"m{number}", member.kind, member.namespace)
    assert found is not None
    return [int(each["name"][1:]) for each in found["metadata"].get("ownerReferences") or ()]


def require_right(family: Family, left: set[int], names: dict[int, list[int]]) -> None:
    members, ways = family.members, {number: way for number, way, _ in family.deleted}
    rightly = {
        number: [owner for owner in each.owners if members[owner].namespace == each.namespace]
        for number, each in enumerate(members)
    }
    may_go = set(ways)
    while more := [
        number
        for number, each in enumerate(members)
        if number not in may_go and each.owners and all(owner in may_go for owner in rightly[number])
    ]:
        may_go.update(more)
    for number, each in enumerate(members):
        was_let_go = [owner for owner in rightly[number] if ways.get(owner) is Propagation.ORPHAN]
        if number in ways:
            assert number not in left, f"m{number} was deleted, and is there"
        elif number not in left:
            assert each.owners, f"m{number} never had an owner, and is gone"
            assert not [owner for owner in rightly[number] if owner in left], f"m{number} has an owner, and is gone"
            assert len(was_let_go) < len(each.owners), f"m{number} was let go by all, and is gone"
            assert number in may_go, f"m{number} is gone for no known reason"
        else:
            is_owned = any(owner in left for owner in rightly[number])
            assert is_owned or not each.owners or was_let_go, f"m{number} has lost its owners, and is there"
            assert all(owner in left for owner in names[number]), f"m{number} still names one that is gone"
