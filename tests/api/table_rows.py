"""Rows of tables for tests: a moment, times before it, and an object's row at that moment."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mainstay.api.kind import Object
from mainstay.api.tables import TABLES
from mainstay.api.times import format_time

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def ago(**duration: float) -> str:
    """A timestamp: `ago(minutes=5)`."""
    return format_time(NOW - timedelta(**duration))


def an_object(name: str = "web", /, **fields: Any) -> Object:
    """An object that was created five minutes ago. `metadata` adds to what that says."""
    metadata = {"name": name, "namespace": "default", "creationTimestamp": ago(minutes=5)}
    return {**fields, "metadata": {**metadata, **fields.get("metadata", {})}}


def row(kind: str, found: Object, group: str = "") -> list[Any]:
    return TABLES[group, kind].cells(found, NOW)


def shown(kind: str, found: Object, group: str = "") -> dict[str, Any]:
    """The row by the names of its columns, for tables with many."""
    columns = TABLES[group, kind].columns
    return dict(zip((column.name for column in columns), row(kind, found, group), strict=True))
