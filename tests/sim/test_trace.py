"""The hash over a run, and finding where two runs part."""

import asyncio

import pytest

from mainstay.sim.loop.trace import BATCH, Event, Trace, TraceDifference, first_difference
from mainstay.sim.simulation import Simulation


def traced(*events: str, keep: bool = True) -> Trace:
    trace = Trace(keep=keep)
    for event in events:
        trace.note("said", event)
    return trace


def test_equal_events_have_equal_digests_and_no_difference():
    assert traced("a", "b").digest == traced("a", "b").digest
    assert first_difference(traced("a", "b"), traced("a", "b")) is None


def test_the_order_of_events_and_the_borders_of_fields_matter():
    assert traced("a", "b").digest != traced("b", "a").digest
    assert traced("ab", "c").digest != traced("a", "bc").digest
    assert traced("1").digest != Trace().digest


def test_the_first_event_that_differs_is_named():
    assert first_difference(traced("a", "b", "c"), traced("a", "x", "c")) == TraceDifference(
        1, Event(0, "said b"), Event(0, "said x")
    )
    assert first_difference(traced("a"), traced("a", "b")) == TraceDifference(1, None, Event(0, "said b"))


def test_a_text_that_looks_like_a_number_is_told_from_the_number():
    left, right = Trace(keep=True), Trace(keep=True)
    left.note("port", 80)
    right.note("port", "80")

    assert str(first_difference(left, right)) == "event 0: 0.000000000 port 80 | 0.000000000 port '80'"


def test_a_difference_reads_as_a_sentence():
    difference = first_difference(traced("a"), traced("b", "c"))

    assert str(difference) == "event 0: 0.000000000 said a | 0.000000000 said b"
    assert str(first_difference(traced("a"), traced())) == "event 0: 0.000000000 said a | the end"


def test_without_the_events_the_difference_cannot_be_named():
    with pytest.raises(ValueError, match="keep=True"):
        first_difference(traced("a", keep=False), traced("b"))
    with pytest.raises(ValueError, match="keep=True"):
        list(traced("a", keep=False).events())


def test_looking_at_the_digest_does_not_change_it():
    looked_at, left_alone = Simulation(), Simulation()

    async def main(sim: Simulation, look: bool) -> None:
        for _ in range(2000):
            await asyncio.sleep(1)
            if look:
                assert sim.digest

    looked_at.run(main(looked_at, True))
    left_alone.run(main(left_alone, False))

    assert looked_at.digest == left_alone.digest
    looked_at.close()
    left_alone.close()


def test_steps_choices_and_notes_are_events_with_their_time(sim):
    sim = Simulation(seed=1, keep_trace=True)

    async def main() -> None:
        await asyncio.sleep(1.5)
        chosen = sim.choices.choose("colour", 4)
        sim.trace.note("painted", "fence", chosen, 0.5, b"x", None)

    with sim:
        sim.run(main())
        events = [str(event) for event in sim.trace.events()]

    chosen = sim.tape[0].chosen
    name = main.__qualname__
    assert events[:7] == [
        f"0.000000000 define 1 main {name}",
        f"0.000000000 step main {name}",
        "1.500000000 define 2 _set_result_unless_cancelled",
        "1.500000000 step _set_result_unless_cancelled",
        f"1.500000000 step main {name}",
        f"1.500000000 choice colour #0: {chosen} of 4",
        f"1.500000000 painted fence {chosen} 0.5 b'x' None",
    ]


def test_checkpoints_show_in_which_batch_two_runs_part():
    async def main(sim: Simulation, note: str) -> None:
        for turn in range(BATCH):
            await asyncio.sleep(1)
            if turn == BATCH // 2:
                sim.trace.note(note)

    with Simulation() as left, Simulation() as right:
        left.run(main(left, "left"))
        right.run(main(right, "right"))

    same = [a == b for a, b in zip(left.trace.checkpoints, right.trace.checkpoints, strict=True)]
    assert same == [True, False, False]


def test_no_address_reaches_the_trace(sim):
    sim = Simulation(keep_trace=True)

    class Callable:
        def __call__(self) -> None: ...

        def method(self) -> None: ...

    async def main() -> None:
        for callback in (Callable(), Callable().method, lambda: None, sim.loop.create_future().cancel):
            sim.loop.call_soon(callback)
        await asyncio.Task(asyncio.sleep(1))

    with sim:
        sim.run(main())
        text = "\n".join(map(str, sim.trace.events()))

    assert "0x" not in text
    assert "Callable.method" in text
    assert "task sleep" in text
    assert "Task-" not in text  # From asyncio's counter, which all loops of the process share.
