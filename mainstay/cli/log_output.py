"""What goes to standard error while something runs: a line for each record, as text for people or as JSON for machines.

What a caller gives as `extra` is shown with the message: `key=value` at the end of the text, a field of the JSON.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

# What every record has; the rest came as `extra`.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def set_up_logs(form: str, verbosity: int) -> None:
    """`form` is `text` or `json`. Warnings are always shown; -v adds what happens, -vv what is good for debugging."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries talk a lot: they get one step less.
    root.setLevel([logging.WARNING, logging.WARNING, logging.INFO][min(verbosity, 2)])
    logging.getLogger("mainstay").setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbosity, 2)])


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        text = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _USUAL}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")[:23] + "Z"
