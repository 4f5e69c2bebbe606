"""The documents are true where a machine can tell: files they name are there, and the README has its two commands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMED = re.compile(r"`((?:mainstay|tests|bench|docs|examples|tools)/[\w./-]*)`|\]\(([\w./-]+)\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_document_names_is_there(document):
    for from_root, from_here in NAMED.findall(document.read_text()):
        path = ROOT / from_root if from_root else document.parent / from_here
        assert path.exists(), f"{document.name} names {from_root or from_here}, which is not there"


def test_the_readme_begins_with_the_two_commands():
    head = (ROOT / "README.md").read_text().split("## ")[0]
    assert "$ make demo" in head
    assert "$ make test" in head


def test_the_coverage_page_has_every_requirement_once():
    found = re.findall(r"^\| ([A-Z]\d+) \|", (ROOT / "docs/coverage.md").read_text(), re.MULTILINE)
    counts = {"F": 8, "R": 6, "O": 8, "W": 9, "T": 9, "S": 10}
    assert found == [f"{letter}{number}" for letter in counts for number in range(1, counts[letter] + 1)]


def test_the_glossary_is_short_and_has_each_word_once():
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/GLOSSARY.md").read_text(), re.MULTILINE)
    words = [word for row in rows for word in row.split(", ")]

    assert len(rows) <= 60
    assert sorted(words) == sorted(set(words))
