"""Lists and watches that bring the metadata of objects alone: a tenth of a pod, and the server need not render it."""

from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.client.call import Pairs
from mainstay.client.client import Client, RawPage
from mainstay.client.errors import Unavailable
from mainstay.client.watch import Watch

_FORM: Final = "application/json;as={};g=meta.k8s.io;v=v1,application/json"
ONE: Final = _FORM.format("PartialObjectMetadata")
MANY: Final = _FORM.format("PartialObjectMetadataList")


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


_decode_list = msgspec.json.Decoder(_List).decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class MetadataSource:
    """Implements `PumpSource` (client/pump.py)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, kind: KindName, name: str, namespace: str) -> Object:
        """The metadata of one object, as it is now. Raises `ApiError`."""
        path = kind.path(namespace, name)
        response = await self._client.request("GET", path, headers={"Accept": ONE})
        try:
            return _decode_object(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(f"GET {path}: cannot parse the answer: {error}") from None

    async def list_raw(
        self,
        kind: KindName,
        namespace: str,
        *,
        labels: str = "",
        fields: str = "",
        limit: int | None = None,
        continue_: str = "",
    ) -> RawPage:
        query: Pairs = [pair for pair in (("labelSelector", labels), ("fieldSelector", fields)) if pair[1]]
        if limit is not None:
            query.append(("limit", str(limit)))
        if continue_:
            query.append(("continue", continue_))
        path = kind.path(namespace)
        response = await self._client.request("GET", path, query=query, headers={"Accept": MANY})
        try:
            listed = _decode_list(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unavailable(f"GET {path}: cannot parse the answer: {error}") from None
        metadata = listed.metadata
        items = [bytes(item) for item in listed.items or ()]
        return RawPage(items, metadata.resource_version, metadata.continue_, metadata.remaining_item_count)

    def watch(
        self,
        kind: KindName,
        namespace: str,
        *,
        resource_version: str,
        labels: str,
        fields: str,
        bookmarks: bool,
        initial_events: bool,
        opening: str,
    ) -> Watch:
        return self._client.watch(
            kind,
            namespace,
            resource_version=resource_version,
            labels=labels,
            fields=fields,
            bookmarks=bookmarks,
            initial_events=initial_events,
            accept=ONE,
            opening=opening,
        )
