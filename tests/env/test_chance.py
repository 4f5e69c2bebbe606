"""Random streams, ids and suffixes: what the seed decides, and what must not influence what."""

import re
import subprocess
import sys
import uuid

from hypothesis import given
from hypothesis import strategies as st

from mainstay.env.chance import SUFFIX_ALPHABET, Chance

SEED = b"a seed"


def numbers(chance: Chance, *label: str) -> list[float]:
    stream = chance.stream(*label)
    return [stream.random() for _ in range(5)]


def test_the_same_seed_and_label_give_the_same_stream():
    assert numbers(Chance(SEED), "queue", "jitter") == numbers(Chance(SEED), "queue", "jitter")


def test_another_seed_or_label_gives_another_stream():
    streams = [
        numbers(Chance(SEED), "queue"),
        numbers(Chance(SEED), "queue", "jitter"),
        numbers(Chance(SEED), "queuejitter"),
        numbers(Chance(b"another seed"), "queue"),
    ]

    assert len({tuple(stream) for stream in streams}) == len(streams)


def test_taking_from_one_stream_does_not_shift_another():
    chance = Chance(SEED)
    chance.stream("busy").random()

    assert numbers(chance, "quiet") == numbers(Chance(SEED), "quiet")


def test_what_a_seed_gives_stays_the_same_from_release_to_release():
    """Seeds of bugs are kept for years: a change in how numbers are derived makes them all worthless."""
    chance = Chance(SEED)

    assert chance.stream("queue").getrandbits(64) == 7447854589985960263
    assert chance.uid("pod", 1) == "b5fa6ac3-b40b-437f-8f9e-5d63078076bb"
    assert chance.suffix("pod", 1) == "5fw8q"


def test_what_a_seed_gives_stays_the_same_from_process_to_process():
    program = f"from mainstay.env import Chance; c = Chance({SEED!r}); print(c.stream('a').random(), c.uid('pod', 3))"
    outputs = {
        subprocess.run([sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, stdout=-1, check=True).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_two_labels_share_a_stream_only_if_they_are_equal(one: list[str], other: list[str]):
    chance = Chance(SEED)

    assert (numbers(chance, *one) == numbers(chance, *other)) == (one == other)


def test_an_id_depends_on_its_owner_and_ordinal_only():
    chance = Chance(SEED)
    first = chance.uid("replicaset/web", 1)
    chance.stream("anything").random()

    assert chance.uid("replicaset/web", 1) == first
    assert chance.uid("replicaset/web", 2) != first
    assert chance.uid("replicaset/api", 1) != first


def test_an_id_looks_like_any_random_uuid():
    parsed = uuid.UUID(Chance(SEED).uid("pod", 1))

    assert parsed.version == 4
    assert parsed.variant == uuid.RFC_4122


@given(st.binary(min_size=1), st.text(), st.integers(0, 1000), st.integers(1, 20))
def test_a_suffix_has_its_length_and_only_letters_of_the_alphabet(seed: bytes, owner: str, ordinal: int, length: int):
    suffix = Chance(seed).suffix(owner, ordinal, length=length)

    assert re.fullmatch(f"[{SUFFIX_ALPHABET}]{{{length}}}", suffix)


def test_suffixes_use_the_whole_alphabet():
    suffixes = "".join(Chance(SEED).suffix("pod", ordinal) for ordinal in range(200))

    assert set(suffixes) == set(SUFFIX_ALPHABET)


def test_a_suffix_of_five_letters_is_the_default():
    assert len(Chance(SEED).suffix("web", 1)) == 5


def test_a_child_is_a_source_of_its_own():
    parent = Chance(SEED)
    child = parent.child("scheduler")

    assert numbers(child, "queue") == numbers(Chance(SEED).child("scheduler"), "queue")
    assert numbers(child, "queue") != numbers(parent, "queue")
    assert numbers(child, "queue") != numbers(parent.child("agent"), "queue")
    assert child.uid("pod", 1) != parent.uid("pod", 1)


def test_a_fresh_source_has_a_seed_of_its_own():
    assert numbers(Chance.fresh(), "queue") != numbers(Chance.fresh(), "queue")
