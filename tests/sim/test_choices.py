"""Labelled choices, and the tape they are written on."""

from pathlib import Path

import pytest

from mainstay.sim.run.choices import Choice, Choices, Tape


def drawn(choices: Choices, label: str, count: int = 20) -> list[int]:
    return [choices.choose(label, 1000) for _ in range(count)]


def test_the_same_seed_chooses_the_same_and_another_seed_otherwise():
    assert drawn(Choices(7), "delay") == drawn(Choices(7), "delay")
    assert drawn(Choices(7), "delay") != drawn(Choices(8), "delay")


def test_the_values_of_a_seed_never_change():
    """Seeds of bugs are kept for years: a change of how choices are derived makes them all worthless."""
    choices = Choices(7)

    assert [choices.choose("delay", 100) for _ in range(10)] == [75, 53, 29, 45, 52, 78, 38, 96, 8, 14]


def test_a_choice_under_one_label_does_not_move_those_under_another():
    alone = drawn(Choices(7), "delay")

    beside = Choices(7)
    mixed = []
    for _ in range(20):
        beside.choose("loss", 2)
        mixed.append(beside.choose("delay", 1000))

    assert mixed == alone


def test_all_options_come_up_about_equally_often():
    choices = Choices(1)
    counts = [0] * 5
    for _ in range(5000):
        counts[choices.choose("which", 5)] += 1

    assert all(900 < count < 1100 for count in counts)


def test_something_occurs_as_often_as_its_probability_says():
    choices = Choices(1)

    assert 900 < sum(choices.occurs("fault", 0.2) for _ in range(5000)) < 1100
    assert not any(choices.occurs("never", 0.0) for _ in range(1000))
    assert all(choices.occurs("always", 1.0) for _ in range(1000))


def test_a_single_option_is_no_choice_and_none_is_a_mistake():
    choices = Choices()

    assert choices.choose("only", 1) == 0
    with pytest.raises(ValueError, match="no options for choice"):
        choices.choose("none", 0)


def test_each_choice_is_on_the_tape_with_its_ordinal():
    choices = Choices(3)
    first = choices.choose("delay", 10)
    occurred = choices.occurs("loss", 0.5)
    second = choices.choose("delay", 10)

    assert list(choices.tape) == [
        Choice("delay", 0, 10, first),
        Choice("loss", 0, 2, int(occurred)),
        Choice("delay", 1, 10, second),
    ]


def test_a_tape_replays_its_choices_and_is_benign_where_it_says_nothing():
    tape = Tape([Choice("delay", 0, 10, 4), Choice("delay", 2, 10, 9), Choice("loss", 0, 2, 1)])

    replay = Choices.from_tape(tape)

    assert [replay.choose("delay", 10) for _ in range(4)] == [4, 0, 9, 0]
    assert [replay.occurs("loss", 0.0) for _ in range(2)] == [True, False]
    assert replay.choose("never heard of", 5) == 0


def test_a_replay_writes_the_same_tape():
    choices = Choices(3)
    drawn(choices, "delay")
    replay = Choices.from_tape(choices.tape)

    drawn(replay, "delay")

    assert replay.tape == choices.tape


def test_a_choice_that_no_longer_exists_is_replaced_by_the_benign_one():
    replay = Choices.from_tape(Tape([Choice("which", 0, 10, 7)]))

    assert replay.choose("which", 5) == 0


def test_leaving_choices_out_gives_a_new_tape():
    tape = Tape([Choice("a", 0, 3, 1), Choice("b", 0, 3, 2), Choice("a", 1, 3, 2)])

    assert list(tape.without(0, 2)) == [Choice("b", 0, 3, 2)]
    assert len(tape) == 3
    assert repr(tape) == "<Tape of 3 choices, 3 not benign>"


def test_a_tape_survives_being_saved(tmp_path: Path):
    tape = Tape([Choice("a", 0, 3, 1), Choice("ü/b", 5, 2, 0)])
    tape.save(tmp_path / "tape.json")

    assert Tape.load(tmp_path / "tape.json") == tape
