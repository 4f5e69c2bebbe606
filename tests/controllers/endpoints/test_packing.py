"""Which endpoint stands in which slice: exactly once, and with few writes."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mainstay.controllers.endpoints.packing import DesiredSlice, ExistingSlice, Packing, packed
from mainstay.controllers.endpoints.routes import Endpoint, EndpointGroup, Port

A, B = EndpointGroup("IPv4", (Port("http", "TCP", 1),)), EndpointGroup("IPv4", (Port("http", "TCP", 2),))
SIX = EndpointGroup("IPv6", (Port("http", "TCP", 1),))
EMPTY = EndpointGroup("IPv4", ())
NOTHING = Packing({})


def an(name: str, version: int = 1) -> Endpoint:
    return Endpoint(name, {"name": name, "version": version})


def some(names: str) -> tuple[Endpoint, ...]:
    return tuple(an(name) for name in names)


def pack(existing: Sequence[ExistingSlice], wanted: dict[EndpointGroup, tuple[Endpoint, ...]]) -> Packing:
    return packed(existing, wanted, ["IPv4"], size_max=3)


def test_what_is_as_it_should_be_is_left_alone():
    assert pack([ExistingSlice("s1", A, some("abc")), ExistingSlice("s2", A, some("d"))], {A: some("abcd")}) == NOTHING


def test_new_endpoints_get_slices_that_are_filled():
    assert pack([], {A: some("abcd")}) == Packing({}, (DesiredSlice(A, some("abc")), DesiredSlice(A, some("d"))))


def test_one_more_goes_into_the_fullest_slice_that_has_room():
    existing = [
        ExistingSlice("s1", A, some("a")),
        ExistingSlice("s2", A, some("bc")),
        ExistingSlice("s3", A, some("def")),
    ]

    assert pack(existing, {A: some("abcdefg")}) == Packing({"s2": DesiredSlice(A, some("bcg"))})


def test_more_go_into_one_slice_that_has_room_for_all_or_else_into_a_new_one():
    existing = [ExistingSlice("s1", A, some("a")), ExistingSlice("s2", A, some("bc"))]

    assert pack(existing, {A: some("abcxy")}) == Packing({"s1": DesiredSlice(A, some("axy"))})
    assert pack([ExistingSlice("s2", A, some("bc"))], {A: some("bcxy")}) == Packing({}, (DesiredSlice(A, some("xy")),))


def test_a_slice_that_changes_anyway_is_filled_first():
    existing = [ExistingSlice("s1", A, some("ab")), ExistingSlice("s2", A, some("cd"))]

    assert pack(existing, {A: some("acdx")}) == Packing({"s1": DesiredSlice(A, some("ax"))})


def test_an_endpoint_that_changes_stays_where_it_is():
    changed = (an("a"), an("b", version=2))

    assert pack([ExistingSlice("s1", A, some("ab"))], {A: changed}) == Packing({"s1": DesiredSlice(A, changed)})


def test_a_slice_that_becomes_empty_goes_unless_something_new_needs_one():
    existing = [ExistingSlice("s1", A, some("abc")), ExistingSlice("s2", A, some("d"))]

    assert pack(existing, {A: some("abc")}) == Packing({}, removed=("s2",))
    assert pack(existing, {A: some("abcx")}) == Packing({"s2": DesiredSlice(A, some("x"))})


def test_when_all_are_gone_one_slice_stays_and_is_used_again():
    emptied = pack([ExistingSlice("s1", A, some("a")), ExistingSlice("s2", A, some("b"))], {})
    assert emptied == Packing({"s1": DesiredSlice(EMPTY, ())}, removed=("s2",))
    assert pack([ExistingSlice("s1", EMPTY, ())], {}) == NOTHING
    assert pack([ExistingSlice("s1", EMPTY, ())], {A: some("a")}) == Packing({"s1": DesiredSlice(A, some("a"))})
    assert pack([], {}) == Packing({}, (DesiredSlice(EMPTY, ()),))


def test_new_ports_are_written_in_place():
    existing = [ExistingSlice("s1", A, some("abc")), ExistingSlice("s2", A, some("d"))]

    assert pack(existing, {B: some("abcd")}) == Packing(
        {"s1": DesiredSlice(B, some("abc")), "s2": DesiredSlice(B, some("d"))}
    )


def test_what_has_to_move_is_taken_out_before_it_is_put_in():
    first = pack([ExistingSlice("s1", A, some("ab"))], {A: some("a"), B: some("b")})
    assert first == Packing({"s1": DesiredSlice(A, some("a"))}, waits=True)
    assert pack([ExistingSlice("s1", A, some("a"))], {A: some("a"), B: some("b")}) == Packing(
        {}, (DesiredSlice(B, some("b")),)
    )


def test_what_stands_in_two_slices_stays_in_the_first():
    existing = [ExistingSlice("s1", A, some("ab")), ExistingSlice("s2", A, some("bc"))]

    assert pack(existing, {A: some("abc")}) == Packing({"s2": DesiredSlice(A, some("c"))})


def test_a_family_that_is_not_wanted_any_more_goes():
    existing = [ExistingSlice("s1", A, some("a")), ExistingSlice("s2", SIX, some("a"))]

    assert pack(existing, {A: some("a")}) == Packing({}, removed=("s2",))


def test_families_do_not_disturb_each_other():
    existing = [ExistingSlice("s1", A, some("a")), ExistingSlice("s2", SIX, some("a"))]

    assert packed(existing, {A: some("a"), SIX: some("a")}, ["IPv4", "IPv6"], size_max=3) == NOTHING
    more = packed(existing, {B: some("a"), SIX: some("ab")}, ["IPv4", "IPv6"], size_max=3)
    assert more == Packing({"s1": DesiredSlice(B, some("a")), "s2": DesiredSlice(SIX, some("ab"))})


# Whatever was there before and is wanted now

GROUPS = st.sampled_from([A, B, SIX])
CONTENTS = st.lists(
    st.builds(an, st.sampled_from("abcdefghij"), st.integers(1, 2)), max_size=5, unique_by=lambda e: e.identity
)
EXISTING = st.lists(st.tuples(st.sampled_from([A, B, SIX, EMPTY]), CONTENTS), max_size=5)
WANTED = st.dictionaries(st.sampled_from("abcdefghij"), st.tuples(st.sampled_from([A, B]), st.integers(1, 2)))
WANTED_SIX = st.dictionaries(st.sampled_from("abcdefghij"), st.tuples(st.just(SIX), st.integers(1, 2)))


def grouped(*parts: dict[str, tuple[EndpointGroup, int]]) -> dict[EndpointGroup, tuple[Endpoint, ...]]:
    found: dict[EndpointGroup, tuple[Endpoint, ...]] = {}
    for part in parts:
        for name in sorted(part):
            group, version = part[name]
            found[group] = (*found.get(group, ()), an(name, version))
    return found


def applied(existing: Sequence[ExistingSlice], packing: Packing) -> list[ExistingSlice]:
    after = [each for each in existing if each.name not in packing.removed]
    after = [ExistingSlice(e.name, *_pair(packing.changed[e.name])) if e.name in packing.changed else e for e in after]
    return after + [
        ExistingSlice(f"n{number}{len(existing)}", *_pair(each)) for number, each in enumerate(packing.created)
    ]


def _pair(piece: DesiredSlice) -> tuple[EndpointGroup, tuple[Endpoint, ...]]:
    return piece.group, piece.endpoints


def standing(slices: Sequence[ExistingSlice]) -> list[tuple[EndpointGroup, str, int]]:
    return sorted((s.group, e.identity, e.body["version"]) for s in slices for e in s.endpoints)


@given(EXISTING, WANTED, WANTED_SIX)
def test_the_slices_have_exactly_what_is_wanted_and_then_nothing_changes(existing, four, six):
    wanted = grouped(four, six)
    families = ["IPv4", "IPv6"]
    slices = [ExistingSlice(f"s{number}", group, tuple(content)) for number, (group, content) in enumerate(existing)]
    rounds = 0
    while (packing := packed(slices, wanted, families, size_max=3)) != NOTHING:
        rounds += 1
        stood = {(s.group.family, e.identity, s.name) for s in slices for e in s.endpoints}
        put = {(p.group.family, e.identity, name) for name, p in packing.changed.items() for e in p.endpoints}
        put |= {(p.group.family, e.identity, "new") for p in packing.created for e in p.endpoints}
        # What comes into a slice stands in no other.
        assert not {each[:2] for each in put - stood} & {each[:2] for each in stood}
        assert not packing.waits or packing.changed or packing.removed
        slices = applied(slices, packing)
        assert rounds <= 3

    assert standing(slices) == sorted((g, e.identity, e.body["version"]) for g, es in wanted.items() for e in es)
    assert all(len(each.endpoints) <= 3 for each in slices)
    assert {each.group.family for each in slices} == set(families)
    empty = [each for each in slices if not each.endpoints]
    assert all(sum(1 for s in slices if s.group.family == each.group.family) == 1 for each in empty)


@given(st.lists(st.sampled_from("abcdefghijklmnop"), unique=True, max_size=16), st.sampled_from("abcdefghijklmnop"))
def test_one_endpoint_more_or_less_is_one_write(names, other):
    start = packed([], {A: some("".join(names))} if names else {}, ["IPv4"], size_max=3)
    slices = applied([], start)
    after = [name for name in names if name != other] if other in names else [*names, other]

    packing = packed(slices, {A: some("".join(after))} if after else {}, ["IPv4"], size_max=3)

    assert len(packing.changed) + len(packing.created) + len(packing.removed) == 1
