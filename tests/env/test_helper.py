"""A helper process: it computes, it fails, it ends."""

import pytest

from mainstay.env.helper import Helper
from mainstay.journal.closed_segment import answer
from mainstay.journal.files import MAGIC


def test_what_it_computes_is_what_would_be_computed_here():
    helper = Helper("mainstay.journal.closed_segment")
    question = b"\x93\xa7history\x05" + b"\xc4" + bytes([len(MAGIC)]) + MAGIC
    answers = [helper.ask(question) for _ in range(2)]
    found = [each.content() for each in answers]
    helper.close()

    assert found == [answer(question)] * 2
    assert answers[1].is_there


def test_one_that_fails_is_an_error_each_time_and_can_be_asked_again():
    helper = Helper("mainstay.no_such_module")
    for _ in range(2):
        with pytest.raises(OSError):  # noqa: PT011  Which one depends on how far it came.
            helper.ask(b"question").content()
    helper.close()
