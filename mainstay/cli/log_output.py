"""The log on standard error: a line for each record, as text for people or as JSON for programs.

The `extra` of a record is printed with the message: `key=value` at the end of the text, a field of the JSON.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

# The attributes of every record; the others are `extra`.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def set_up_logs(form: str, verbosity: int) -> None:
    """Set up logging. `form` is `text` or `json`. -v adds info to warnings, -vv debug."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Libraries log a lot: they get one level less.
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
