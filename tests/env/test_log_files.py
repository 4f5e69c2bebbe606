"""Files that others write into: the last lines of them, and keeping them small without losing the writer."""

from pathlib import Path

from mainstay.env.log_files import last_lines, size, trim


def test_the_last_lines_are_shown(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_text("one\ntwo\nthree\n")

    assert last_lines(log, 2) == ["two", "three"]


def test_only_what_came_after_a_moment_is_shown(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_text("old\n")
    before = size(log)
    with log.open("a") as file:
        file.write("new\n")

    assert last_lines(log, 5, after=before) == ["new"]


def test_a_file_that_was_emptied_since_is_shown_from_its_beginning(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_text("new\n")

    assert last_lines(log, 5, after=1000) == ["new"]


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path):
    assert last_lines(tmp_path / "none", 5) == []
    assert size(tmp_path / "none") == 0


def test_a_small_file_is_left_alone(tmp_path: Path):
    log = tmp_path / "a.log"
    log.write_bytes(b"x" * 10)

    assert not trim(log, 10, keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_a_file_that_has_grown_is_emptied_and_its_writer_goes_on(tmp_path: Path):
    log = tmp_path / "a.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"first" * 3)
        assert trim(log, 10, keep=2)
        writer.write(b"second")

    assert log.read_bytes() == b"second"
    assert (tmp_path / "a.log.1").read_bytes() == b"first" * 3


def test_only_so_many_are_kept(tmp_path: Path):
    log = tmp_path / "a.log"
    for text in (b"aaa", b"bbb", b"ccc"):
        log.write_bytes(text)
        trim(log, 1, keep=2)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.log": b"",
        "a.log.1": b"ccc",
        "a.log.2": b"bbb",
    }
