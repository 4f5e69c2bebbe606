"""Sets of indexes as text, and what a success policy makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.controllers.job import indexes as job_indexes


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("", ()),
        ("0", (0,)),
        ("0,1", (0, 1)),
        ("0-2", (0, 1, 2)),
        ("1,3-5,7", (1, 3, 4, 5, 7)),
        ("1,3,4,6-9", (1, 3, 4, 6, 7, 8, 9)),
    ],
)
def test_a_set_of_indexes_is_written_as_upstream_does_it(text, indexes):
    assert job_indexes.parse(text, 100) == indexes
    assert job_indexes.render_indexes(indexes) == text


@given(st.sets(st.integers(0, 200)))
def test_what_is_written_is_read_again(indexes):
    assert job_indexes.parse(job_indexes.render_indexes(indexes), 201) == tuple(sorted(indexes))


def test_indexes_that_a_job_does_not_have_any_more_are_left_out():
    assert job_indexes.parse("0,3-9", 5) == (0, 3, 4)


@pytest.mark.parametrize(
    ("rules", "succeeded", "met"),
    [
        ([], (0, 1, 2), None),
        ([{"succeededIndexes": "0,2"}], (0, 1), None),
        ([{"succeededIndexes": "0,2"}], (0, 2), 0),
        ([{"succeededCount": 2}], (3,), None),
        ([{"succeededCount": 2}], (1, 3), 0),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], (0, 4), None),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], (1, 3), 0),
        ([{"succeededIndexes": "4"}, {"succeededCount": 1}], (0,), 1),
    ],
)
def test_the_first_rule_that_is_met_decides(rules, succeeded, met):
    assert job_indexes.success_rule({"rules": rules}, succeeded, 5) == met
