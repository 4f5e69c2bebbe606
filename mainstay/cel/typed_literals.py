"""Literals of the types that mutations are written with, `Object{…}` and `JSONPatch{…}`, as maps of the library.

    Object{spec: Object.spec{replicas: 2}}        dyn({"spec": dyn({"replicas": 2})})
    JSONPatch{op: "add", path: "/a", value: 1}    dyn({"op": "add", "path": "/a", "value": 1})
    jsonpatch.escapeKey(k)                        (k).replace("~", "~0").replace("/", "~1")

The library builds messages only of types that are compiled into it, and an object of Kubernetes is none of them. So the
text is rewritten before it is compiled: each literal of such a type becomes a map, of any type so that two of them can
stand in one conditional. The lines stay as they are; for the columns, `Rewritten` knows where each piece came from.

The name of a type says where its fields belong, and is checked against the literal around it. Whether an object has
such a field is only known when there is an object: api/conform.py finds out.
"""

import re
from dataclasses import dataclass
from typing import Final

from mainstay.cel.errors import BadExpression

OBJECT: Final = "Object"
JSON_PATCH: Final = "JSONPatch"
PATCH_FIELDS: Final = ("op", "path", "from", "value")
NESTED_MAX: Final = 32
"""Brackets within each other: as many as the library takes."""

_ESCAPED: Final = ".replace('~', '~0').replace('/', '~1')"
_TOKEN: Final = re.compile(
    r"""
      (?P<text>[bB]?[rR][bB]?(?:'{3}.*?'{3}|"{3}.*?"{3}|'[^'\n]*'|"[^"\n]*")
          |[bB]?(?:'{3}(?:\\.|.)*?'{3}|"{3}(?:\\.|.)*?"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    | (?P<comment>//[^\n]*)
    | (?P<type>(?:Object(?:\.[a-zA-Z_]\w*)*|JSONPatch)(?=\s*\{))
    | (?P<escape>jsonpatch\.escapeKey(?=\s*\())
    | (?P<name>[a-zA-Z_][\w.]*)
    | (?P<open>[([{])
    | (?P<close>[)\]}])
    | (?P<mark>[,:?])
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Rewritten:
    text: str
    pieces: tuple[tuple[int, int, int], ...]
    """Of the pieces that stand in both: the line, the column in `text`, and the column in the original."""

    def find_column(self, line: int, column: int) -> int:
        """The column in the original that a column in the text came from."""
        found = [piece for piece in self.pieces if piece[0] == line and piece[1] <= column]
        return column if not found else found[-1][2] + column - found[-1][1]


@dataclass(slots=True)
class _Bracket:
    closes: str
    """What is written in the place of its closing bracket."""
    type: str = ""
    """That of the literal; empty if it is another bracket."""
    field: str = ""
    """Of the literal: the field whose value is being read; empty where a name is expected."""


class _Rewriting:
    """One walk through an expression."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.pieces: list[tuple[int, int, int]] = []
        self._brackets: list[_Bracket] = []
        self._opens: tuple[str, str] | None = None
        """What the next bracket is: a literal of this type, or what its closing one is followed by."""
        self._line, self._column, self._written = 1, 1, 1

    def run(self, source: str) -> Rewritten:
        for found in _TOKEN.finditer(source):
            self._take(found.lastgroup or "", found.group())
        return Rewritten("".join(self.parts), tuple(self.pieces))

    def _take(self, sort: str, text: str) -> None:
        self.pieces.append((self._line, self._written, self._column))
        self._write(self._rewrite(sort, text))
        line_break = text.rfind("\n")
        if line_break >= 0:
            self._line += text.count("\n")
            self._column = self._written = len(text) - line_break
        else:
            self._column += len(text)

    def _write(self, text: str) -> None:
        self.parts.append(text)
        self._written += len(text)

    def _rewrite(self, sort: str, text: str) -> str:
        literal = self._brackets[-1] if self._brackets and self._brackets[-1].type else None
        if literal is not None and not literal.field and sort not in ("space", "comment", "close"):
            return self._name_field(literal, sort, text)
        match sort:
            case "type":
                self._opens = (text, "")
                return ""
            case "escape":
                self._opens = ("", _ESCAPED)
                return ""
            case "open":
                return self._open(text)
            case "close":
                return text if not self._brackets else text + self._brackets.pop().closes
            case "mark" if text == "," and literal is not None:
                literal.field = ""
                return text
            case _:
                return text

    def _open(self, text: str) -> str:
        (type_name, closes), self._opens = self._opens or ("", ""), None
        if len(self._brackets) >= NESTED_MAX:
            raise self._bad(f"more than {NESTED_MAX} brackets within each other")
        if not type_name:
            self._brackets.append(_Bracket(closes))
            return text
        around = next((each for each in reversed(self._brackets) if each.type.startswith(OBJECT)), None)
        if around is not None and type_name != (expected := f"{around.type}.{around.field}"):
            raise self._bad(
                f'unexpected type name "{type_name}", expected "{expected}": it is the path of the field from the root'
            )
        self._brackets.append(_Bracket(")", type_name))
        return "dyn({"

    def _name_field(self, literal: _Bracket, sort: str, text: str) -> str:
        if text == "?":
            return text
        if sort != "name" or "." in text:
            raise self._bad(f"the name of a field is expected in {literal.type}{{…}}, not {text!r}")
        if literal.type == JSON_PATCH and text not in PATCH_FIELDS:
            raise self._bad(f"undefined field '{text}' of JSONPatch: it has {', '.join(PATCH_FIELDS)}")
        literal.field = text
        return f'"{text}"'

    def _bad(self, problem: str) -> BadExpression:
        return BadExpression(f"line {self._line}, column {self._column}: {problem}")


def rewrite_literals(source: str) -> Rewritten:
    """Raises `BadExpression` for a literal that is none of its type."""
    return _Rewriting().run(source)
