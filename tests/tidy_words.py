"""Retired words: what must not stand in string literals and identifiers any more.

They belong to a private dialect that hid who does what. `python -m tests.tidy_words` counts what is left, by package.
Docstrings count as literals where users read them (`READ_BY_USERS`); elsewhere they are counted apart.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeGuard

from tests.tidy import Finding
from tests.tidy_rules import Rule

ROOT: Final = Path(__file__).parent.parent
ROOTS: Final = ("mainstay", "tests", "bench", "examples")
RETIRED: Final = "nobody whoever somebody anybody anew manieth"
# Names that were replaced, where they are defined and as a whole: part of another name they may be good English.
RETIRED_NAMES: Final = "Escort escort_of ALONE Beside Ears Deafness Wish OwnLoop Interference"
# Phrases of the same dialect, retired in what programs print: prose about the code may still use some of them.
RETIRED_PHRASES: Final = (
    *("told to go", "held up", "leads nowhere", "as it should be", "not heard of", "last heard of", "at work"),
    *("again and again", "tried out", "to and fro", "into question", "taken off", "given up", "knows of no"),
    *("see to it", "there never was", "has not said yet", "are wanted now"),
)
READ_BY_USERS: Final = ("mainstay/cli/", "mainstay/scenarios/", "mainstay/sim/faults/", "mainstay/sim/checkers/")
# This table, and the tests that plant the words to see them found.
EXCEPTED: Final = ("tests/tidy_words.py", "tests/test_tidy.py")

_WORD = re.compile(rf"\b({RETIRED.replace(' ', '|')})\b", re.IGNORECASE)
_IN_NAME = re.compile(rf"(?<![a-z])({RETIRED.replace(' ', '|')})(?![a-z])")
_PHRASE = re.compile(rf"\b({'|'.join(RETIRED_PHRASES)})", re.IGNORECASE)
_ANY = re.compile("|".join((*f"{RETIRED} {RETIRED_NAMES}".split(), *RETIRED_PHRASES)), re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Place(StrEnum):
    """Where a word stands."""

    LITERAL = "literals"
    IDENTIFIER = "identifiers"
    DOCSTRING = "docstrings"
    COMMENT = "comments"


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One retired word in the source."""

    path: str
    line: int
    place: Place
    word: str


def find_uses(path: str, source: str) -> Iterator[Use]:
    """Every retired word in one module, with where it stands."""
    if not _ANY.search(source):
        return  # Reading a module token by token is slow.
    tree = ast.parse(source)
    docstrings = {line for node in _documented(tree) for line in _lines(node)}
    prose = {line for node in ast.walk(tree) if _is_prose(node) for line in _lines(node)}
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        match tokenize.tok_name[token.type]:
            case "NAME":
                if before in ("class", "def") and token.string in RETIRED_NAMES.split():
                    yield Use(path, line, Place.IDENTIFIER, token.string)
                for word in _IN_NAME.findall(_CAMEL.sub("_", token.string).lower()):
                    yield Use(path, line, Place.IDENTIFIER, word)
            case "COMMENT":
                yield from (Use(path, line, Place.COMMENT, word) for word in _WORD.findall(token.string))
            case "STRING" | "FSTRING_MIDDLE":
                is_docstring = line in docstrings and not path.startswith(READ_BY_USERS)
                place = Place.DOCSTRING if is_docstring else Place.LITERAL
                for match in _WORD.finditer(token.string):
                    yield Use(path, line + token.string[: match.start()].count("\n"), place, match[0])
                if line not in prose:
                    yield from (Use(path, line, Place.LITERAL, phrase) for phrase in _PHRASE.findall(token.string))
        before = token.string


def _documented(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str())) as docstring, *_]:
                    yield docstring


def _is_prose(node: ast.AST) -> TypeGuard[ast.Expr]:
    """A string that stands by itself: a docstring, or the words under an attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def check_words(root: Path) -> Iterator[Finding]:
    """Retired words in literals and identifiers."""
    for use in _find_all(root):
        if use.place in (Place.LITERAL, Place.IDENTIFIER):
            yield Finding(use.path, use.line, Rule.WORD, use.word)


def _find_all(root: Path) -> Iterator[Use]:
    for part in ROOTS:
        for file in sorted((root / part).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            if path not in EXCEPTED and not path.endswith(("_pb2.py", "_pb2_grpc.py")):
                yield from find_uses(path, file.read_text())


def _count_by_package() -> None:
    counts: dict[str, Counter[Place]] = {}
    for use in _find_all(ROOT):
        package = "/".join(Path(use.path).parent.parts[:2])
        counts.setdefault(package, Counter())[use.place] += 1
    total: Counter[Place] = sum(counts.values(), Counter())
    for package, count in [*sorted(counts.items()), ("all", total)]:
        row = "  ".join(f"{place} {count[place]:4}" for place in Place)
        sys.stdout.write(f"{package:28} {row}\n")


if __name__ == "__main__":
    _count_by_package()
