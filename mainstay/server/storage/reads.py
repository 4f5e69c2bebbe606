"""Reading objects: one, or many by pages, at the latest revision or an older one. The same way for every kind."""

import base64
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import msgspec

from mainstay.api.causes import VERSION_TOO_LARGE
from mainstay.api.errors import (
    StatusError,
    StatusReason,
    bad_request,
    forbidden_value,
    invalid,
    not_found,
    not_supported,
)
from mainstay.api.json_values import UNREADABLE
from mainstay.api.kind import Kind
from mainstay.env import tasks
from mainstay.server.request.target import Options
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.selection import Selection
from mainstay.server.watch.feed import Feed
from mainstay.store.errors import Compacted, FutureRevision
from mainstay.store.interface import Entry, Store

FRESHNESS_LIMIT: Final = timedelta(seconds=3)  # How long a read waits for a revision that has not happened yet.
SLICE_BYTES: Final = 1024 * 1024
"""Looked through without a break by a selector. How long an entry takes depends on its size, and a little is the same
for all."""
_ENTRY_BYTES: Final = 2048
SCAN_ENTRIES: Final = 1000  # Read at a time when a limit and a selector come together.


@dataclass(frozen=True, slots=True)
class Listed:
    """Part of a collection, with the metadata of the list."""

    entries: list[Entry]
    metadata: dict[str, Any]
    warnings: tuple[str, ...] = ()


class ObjectReader:
    def __init__(self, store: Store, feed: Feed) -> None:
        self._store = store
        self._feed = feed

    async def get(self, kind: Kind, namespace: str, name: str, options: Options) -> Entry:
        version = options.get("resourceVersion")
        if version not in ("", "0"):
            await self._require_reached(_version(version))
        entry = await self._store.get(build_key(kind, namespace, name))
        if entry is None:
            raise not_found(kind.plural, kind.group, name)
        return entry

    async def list(self, selection: Selection, options: Options) -> Listed:
        require_list_options(options, is_watch=False)
        token = options.get("continue")
        version, match = options.get("resourceVersion"), options.get("resourceVersionMatch")
        limit = options.number("limit") or None
        at: int | None = None
        after: str | None = None
        if token:
            if version not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            at, after = _read_token(token, selection.prefix)
        elif version == "0":
            limit = None  # Any version will do, and then all of it is given, as clients expect.
        elif version:
            wanted = _version(version)
            if match == "Exact" or (limit is not None and not match):
                at = wanted
            await self._require_reached(wanted)
        try:
            return await self._page(selection, at, limit, after)
        except Compacted:
            what = (
                "The provided continue parameter is too old"
                if token
                else "The resourceVersion for the provided list is"
            )
            text = f"{what} to display a consistent list result." if token else f"{what} too old."
            raise StatusError(410, StatusReason.EXPIRED, text) from None
        except FutureRevision as error:
            raise too_large_version(error.asked, error.latest) from None

    async def _page(self, selection: Selection, at: int | None, limit: int | None, after: str | None) -> Listed:
        if selection.matches is None:
            page = await self._store.range(selection.prefix, at=at, limit=limit, after=after)
            self._feed.mentioned(page.revision)
            return Listed(
                page.entries, _list_metadata(page.revision, page.entries, page.remaining, selection, exact=True)
            )
        found: list[Entry] = []
        while True:
            chunk = None if limit is None else SCAN_ENTRIES
            page = await self._store.range(selection.prefix, at=at, limit=chunk, after=after)
            at = page.revision
            self._feed.mentioned(at)
            scanned = 0
            for index, entry in enumerate(page.entries):
                scanned += _ENTRY_BYTES + len(entry.value)
                if scanned > SLICE_BYTES:
                    scanned = 0
                    await tasks.turns(1)  # Others have theirs. What was read stays as it was.
                if selection.matches(entry):
                    found.append(entry)
                    if len(found) == limit:
                        remaining = page.remaining + len(page.entries) - index - 1
                        return Listed(found, _list_metadata(at, found, remaining, selection, exact=False))
            if not page.remaining:
                return Listed(found, {"resourceVersion": str(at)})
            after = page.entries[-1].key

    async def _require_reached(self, revision: int) -> None:
        """Wait a little for a revision that this server, or the store, has not seen."""
        latest = await self._store.revision()
        if revision <= latest:
            return
        try:
            async with tasks.timeout(FRESHNESS_LIMIT):
                await self._feed.reach(revision)
        except TimeoutError:
            raise too_large_version(revision, self._feed.revision) from None


def require_list_options(options: Options, *, is_watch: bool) -> None:
    """Raise unless what is said about versions makes sense together."""
    version, match = options.get("resourceVersion"), options.get("resourceVersionMatch")
    causes = []
    if "sendInitialEvents" in options:
        if not is_watch:
            causes.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        elif match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            causes.append(forbidden_value("resourceVersionMatch", text))
    elif match:
        if is_watch:
            text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            causes.append(forbidden_value("resourceVersionMatch", text))
        elif not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            causes.append(forbidden_value("resourceVersionMatch", text))
        elif match not in ("Exact", "NotOlderThan"):
            causes.append(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
        elif match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(forbidden_value("resourceVersionMatch", text))
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)


def too_large_version(asked: int, latest: int) -> StatusError:
    cause = {"reason": VERSION_TOO_LARGE, "message": "Too large resource version"}
    text = f"Timeout: Too large resource version: {asked}, current: {latest}"
    return StatusError(504, StatusReason.TIMEOUT, text, {"causes": [cause]}, retry_after_s=1)


def _version(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}":'
            " invalid syntax"
        )
    return int(text)


def _list_metadata(
    revision: int, entries: list[Entry], remaining: int, selection: Selection, *, exact: bool
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if remaining:
        metadata["continue"] = _make_token(revision, entries[-1].key.removeprefix(selection.prefix))
        if exact:
            metadata["remainingItemCount"] = remaining
    return metadata


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def _make_token(revision: int, start: str) -> str:
    data = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, start))
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _read_token(text: str, prefix: str) -> tuple[int, str]:
    try:
        data = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        token = msgspec.json.decode(data, type=_Token)
    except (ValueError, *UNREADABLE):
        raise bad_request("invalid continue token: continue key is not valid") from None
    if token.v != "meta.k8s.io/v1" or token.rv < 1 or not token.start:
        raise bad_request("invalid continue token: continue key is not valid")
    return token.rv, prefix + token.start
