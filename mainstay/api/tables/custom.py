"""Tables for kinds that users define, from the columns in their CustomResourceDefinition.

Such a table begins with the name. A column takes the first value that its path finds and shows it if it is of the
type that the column promises; a text column shows anything. What is not there, or not of that type, is null: clients
show `<none>` for it or nothing.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from mainstay.api.kind import Column, Object
from mainstay.api.tables.fields import is_whole, moment, text, whole
from mainstay.api.tables.jsonpath import Astray, Path, compile_path
from mainstay.api.tables.table import NAME, Filled, Table, table
from mainstay.api.tables.texts import UNKNOWN, since

_ESCAPED: Final = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}  # As Go does, for web pages.
_PLAIN_FLOAT_MIN, _PLAIN_FLOAT_MAX = 1e16, 1e21  # Between these, Go writes all digits and Python an exponent.
_NESTED_MAX: Final = 200  # How deep a value may be that is shown as text.


def custom_table(printer_columns: Sequence[Object]) -> Table:
    """The table for `additionalPrinterColumns`. If there are none, it shows the age."""
    return table(NAME, *(_column(each) for each in printer_columns or (_AGE,)))


_AGE: Final = {
    "name": "Age",
    "type": "date",
    "description": "How long ago it was created.",
    "jsonPath": ".metadata.creationTimestamp",
}


def _column(printer_column: Object) -> Filled:
    written = text(printer_column, "jsonPath")
    holds = text(printer_column, "type", "string")
    path = compile_path(written) if written else None
    column = Column(
        name=text(printer_column, "name"),
        type=holds,
        format=text(printer_column, "format"),
        description=text(printer_column, "description") or f"The value at {written}.",
        priority=whole(printer_column, "priority"),
    )
    return Filled(column, lambda found, now: None if path is None else _cell(path, holds, found, now))


def _cell(path: Path, holds: str, found: Object, now: datetime) -> Any:
    try:
        values = path.find(found)
    except Astray:
        return None
    return _shown(values[0], holds, now) if values else None


def _shown(value: Any, holds: str, now: datetime) -> Any:
    match holds, value:
        case "string", _:
            return _written(value)
        case "boolean", bool():
            return value
        case "date", str():
            return _age(value, now)
        case (("integer" | "number"), (int() | float())) if not isinstance(value, bool):
            return _number(value, holds)
    return None


def _age(value: str, now: datetime) -> str:
    if value in ("", "null"):
        return UNKNOWN
    # The year 1 is how a time says that it is none.
    return since(value, now) if moment(value) or value.startswith("0001-01-01T00:00:00") else "<invalid>"


def _number(value: int | float, holds: str) -> int | float | None:
    try:
        number = int(value) if holds == "integer" else float(value)
    except (OverflowError, ValueError):
        return None
    return number if is_whole(number) or isinstance(number, float) else None


def _written(value: Any) -> str | None:
    """As text, whatever it is: an object or a list as JSON."""
    match value:
        case None:
            return "<no value>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if is_whole(value):
            return str(value)
        case float():
            is_long = _PLAIN_FLOAT_MIN <= abs(value) < _PLAIN_FLOAT_MAX
            return f"{Decimal(repr(value)):f}" if is_long else repr(value).removesuffix(".0")
        case dict() | list() if _is_shallow(value):
            return _json(value)
    return None


def _json(value: Any) -> str | None:
    try:
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    except ValueError:  # A number in it has more digits than Python writes.
        return None
    return written.translate(_ESCAPED)


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_NESTED_MAX):
        below = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for held in below for each in held]
        if not level:
            return True
    return False
