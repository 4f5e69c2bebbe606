"""`-o jsonpath=…`: text with paths in braces, filled from an object.

    {.items[*].metadata.name}        {range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}

The values of a path are written with spaces between: text as it is, anything else as JSON, missing values as nothing.
Paths are those of api/tables/jsonpath.py. Ranges can be nested; unions and `..` are not supported.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mainstay.api.tables.jsonpath import Astray, Path, compile_path

_BRACES: Final = re.compile(r"\{((?:[^{}'\"]|'[^']*'|\"(?:\\.|[^\"\\])*\")*)\}")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}


class BadTemplate(ValueError):
    """The template is invalid. The message says where."""


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


@dataclass(frozen=True, slots=True)
class _Range:
    over: Path
    body: "list[_Text | Path | _Range]" = field(default_factory=list)


_Part = _Text | Path | _Range


@dataclass(frozen=True, slots=True)
class Template:
    parts: tuple[_Part, ...]

    def filled(self, value: Any) -> str:
        """Render the template for an object. Raises `BadTemplate` if a path does not fit the object."""
        try:
            return "".join(_written(self.parts, value))
        except Astray as error:
            raise BadTemplate(f"the path does not fit the object: {error}") from None


def compile_template(text: str) -> Template:
    """Parse a template. Raises `BadTemplate`."""
    if "{" not in text and text[:1] in (".", "$", "["):
        text = f"{{{text}}}"  # Users forget the braces, and this cannot mean anything else.
    open_parts: list[list[_Part]] = [[]]
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            open_parts[-1].append(_Text(text[position:]))
            break
        if start > position:
            open_parts[-1].append(_Text(text[position:start]))
        match = _BRACES.match(text, start)
        if match is None:
            raise BadTemplate(f"unclosed brace: {text[start : start + 40]}")
        _take(match[1].strip(), open_parts)
        position = match.end()
    if len(open_parts) > 1:
        raise BadTemplate("{range …} without {end}")
    return Template(tuple(open_parts[0]))


def _take(inside: str, open_parts: list[list[_Part]]) -> None:
    if inside[:1] in ("'", '"'):
        open_parts[-1].append(_Text(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), inside[1:-1])))
    elif inside == "end":
        if len(open_parts) == 1:
            raise BadTemplate("{end} without {range …}")
        open_parts.pop()
    elif inside.startswith("range ") or inside == "range":
        repeated = _Range(_path(inside.removeprefix("range").strip()))
        open_parts[-1].append(repeated)
        open_parts.append(repeated.body)
    else:
        open_parts[-1].append(_path(inside))


def _path(text: str) -> Path:
    path = compile_path(text.removeprefix("@")) if text else None
    if path is None:
        raise BadTemplate(f"{{{text}}} is not a path (for example {{.metadata.name}})")
    return path


def _written(parts: "tuple[_Part, ...] | list[_Part]", value: Any) -> Iterator[str]:
    for part in parts:
        match part:
            case _Text(text):
                yield text
            case Path():
                yield " ".join(_shown(each) for each in part.find(value))
            case _Range(over, body):
                for each in over.find(value):
                    yield from _written(body, each)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
