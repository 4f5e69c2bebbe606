"""Sorted keys against a plain sorted list."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.store.keys import CHUNK_MAX, SortedKeys, prefix_end

KEYS = st.text(st.sampled_from("ab/\U0010ffff"), min_size=1, max_size=4)


@given(st.lists(KEYS, unique=True), st.data())
def test_ranges_agree_with_a_sorted_list(keys, data):
    sorted_keys = SortedKeys()
    for key in keys:
        sorted_keys.add(key)
    for key in data.draw(st.lists(st.sampled_from(keys), unique=True)) if keys else []:
        sorted_keys.remove(key)
        keys.remove(key)
    prefix = data.draw(st.just("") | KEYS)
    after = data.draw(st.none() | KEYS)
    limit = data.draw(st.none() | st.integers(1, 5))

    expected = sorted(key for key in keys if key.startswith(prefix) and (after is None or key > after))
    found, remaining = sorted_keys.under(prefix, after=after, limit=limit)

    assert found == expected[:limit]
    assert remaining == len(expected) - len(found)


def test_many_keys_in_any_order_are_kept_sorted():
    chance = random.Random(7)
    keys = [f"{chance.randrange(10**9):09}" for _ in range(CHUNK_MAX * 8)]
    keys = list(dict.fromkeys(keys))
    sorted_keys = SortedKeys()
    for key in keys:
        sorted_keys.add(key)
    for key in keys[::3]:
        sorted_keys.remove(key)

    kept = sorted(set(keys) - set(keys[::3]))
    assert sorted_keys.under("") == (kept, 0)
    assert sorted_keys.under("", limit=3000) == (kept[:3000], len(kept) - 3000)
    assert sorted_keys.under("1", after="15")[0] == [key for key in kept if key.startswith("1") and key > "15"]


def test_removing_a_key_that_is_not_there_is_an_error():
    sorted_keys = SortedKeys()
    sorted_keys.add("a")
    with pytest.raises(KeyError):
        sorted_keys.remove("aa")


@pytest.mark.parametrize(
    ("prefix", "end"), [("a", "b"), ("a/", "a0"), ("a\U0010ffff", "b"), ("", None), ("\U0010ffff", None)]
)
def test_the_end_of_a_prefix_is_the_next_text_of_its_length(prefix, end):
    assert prefix_end(prefix) == end
