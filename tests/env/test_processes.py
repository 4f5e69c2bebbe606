"""Copies of this process do their work, and say what they found."""

import gc
import os
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from mainstay.env.processes import TOO_LONG, ChildEnded, Children, Message, cores


def heard_from(children: Children) -> list[Message | ChildEnded]:
    heard = []
    while (each := children.next()) is not None:
        heard.append(each)
    return heard


def test_a_copy_starts_where_this_process_is_and_changes_nothing_here():
    seen = ["before"]

    def work(send):
        seen.append("in the copy")
        send(",".join(seen).encode())

    with Children() as children:
        child = children.start(work)
        heard = heard_from(children)

    assert heard == [Message(child, b"before,in the copy"), ChildEnded(child, "")]
    assert seen == ["before"]


class Garbage:
    """In a cycle, so that only a collection ends it."""

    def __init__(self, ended: list[str]) -> None:
        self.itself = self
        self.ended = ended

    def __del__(self) -> None:
        self.ended.append("collected")


def test_a_copy_does_not_collect_what_this_process_has_left():
    ended: list[str] = []

    def work(send):
        gc.collect()
        send(",".join(ended).encode())

    gc.collect()
    gc.disable()
    try:
        Garbage(ended)
        with Children() as children:
            child = children.start(work)
            heard = heard_from(children)
    finally:
        gc.enable()

    assert heard == [Message(child, b""), ChildEnded(child, "")]
    gc.collect()
    assert ended == ["collected"]


def test_messages_of_any_size_come_whole_and_in_order():
    sizes = [0, 1, 70_000, 3, 300_000]

    def work(send: Callable[[bytes], None]) -> None:
        for size in sizes:
            send(b"x" * size)

    with Children() as children:
        children.start(work)
        heard = heard_from(children)

    assert [len(each.body) for each in heard if isinstance(each, Message)] == sizes


def test_several_are_at_work_at_once():
    reading, writing = os.pipe()

    def waits(send):
        send(os.read(reading, 1))

    def wakes(send):
        os.write(writing, b"!")

    with Children() as children:
        waiting = children.start(waits)
        children.start(wakes)
        assert len(children) == 2
        heard = heard_from(children)

    assert Message(waiting, b"!") in heard
    assert len(children) == 0


def test_work_that_fails_is_told_and_its_error_is_shown(capfd: pytest.CaptureFixture[str]):
    def work(send):
        raise RuntimeError("it broke")

    with Children() as children:
        child = children.start(work)
        assert heard_from(children) == [ChildEnded(child, "ended with status 70")]

    assert "RuntimeError: it broke" in capfd.readouterr().err


def test_a_copy_that_is_killed_says_by_what():
    with Children() as children:
        child = children.start(lambda send: os.kill(os.getpid(), 9))
        assert heard_from(children) == [ChildEnded(child, "ended by signal 9")]


def test_a_copy_that_takes_too_long_is_killed():
    def works_for_ever(send):
        send(b"begun")
        while True:
            time.sleep(60)

    with Children() as children:
        child = children.start(works_for_ever, at_most=timedelta(milliseconds=200))
        assert heard_from(children) == [Message(child, b"begun"), ChildEnded(child, TOO_LONG)]


def test_leaving_the_block_ends_those_that_are_left():
    with Children() as children:
        child = children.start(lambda send: time.sleep(600))

    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_there_is_at_least_one_core():
    assert cores() >= 1
