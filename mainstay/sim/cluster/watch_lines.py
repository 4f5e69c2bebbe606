"""Lines of a watch as the simulator reads them: the type of a change, and its object, at which version."""

from typing import Final

import msgspec


class WatchedMetadata(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = "0"
    namespace: str = ""
    name: str = ""
    annotations: dict[str, str] | None = None

    def key_under(self, prefix: str) -> str:
        """The key of the object, below the prefix of its kind."""
        return prefix + (f"{self.namespace}/{self.name}" if self.namespace else self.name)


class WatchedObject(msgspec.Struct, gc=False):
    metadata: WatchedMetadata = msgspec.field(default_factory=WatchedMetadata)


class WatchLine(msgspec.Struct, gc=False):
    type: str
    object: WatchedObject


decode_line: Final = msgspec.json.Decoder(WatchLine).decode
decode_object: Final = msgspec.json.Decoder(WatchedObject).decode
