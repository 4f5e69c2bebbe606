"""A journal behind a server, asked over the network (server/decisions/pages.py).

    journal = RemoteJournal(client)
    await journal.extent()            the server first catches up with its store

Where several servers share a store, each of them asks the others, and names those that do not answer in `damages`.
"""

from typing import Final

from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Forbidden, NotFound, Throttled, Unauthorized, Unavailable
from mainstay.journal import wire
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.paged_journal import PagedJournal
from mainstay.journal.wire import Pairs

_HEADERS: Final = {"Accept": f"{wire.COMPRESSED}, {wire.RECORDS}"}


class RemoteJournal(PagedJournal):
    """Implements `Journal` (journal/interface.py). The caller closes the client."""

    def __init__(self, client: Client) -> None:
        super().__init__(_name(client), self._fetch_page)
        self._client = client

    async def _fetch_page(self, page: str, query: Pairs) -> tuple[bytes, str]:
        try:
            response = await self._client.request("GET", wire.PATH + page, query=query, headers=_HEADERS)
        except ApiError as error:
            raise JournalUnreachable(_advice(self._client, error)) from error
        return response.body, response.headers.get("content-type", "")


def _advice(client: Client, error: ApiError) -> str:
    """What is wrong, and what to do."""
    who = _name(client)
    match error:
        case NotFound(reason=wire.OFF):
            return f"{who} keeps no journal: {error}"
        case NotFound():
            return f"{who} has no journal: it is not a Mainstay server, or an older version"
        case Forbidden() | Unauthorized():
            return f"{who} denies access to its journal: {error}; use an administrator's kubeconfig"
        case Throttled() | Unavailable():
            return f"cannot reach {who}: {error}; check that it is running and reachable, then retry"
        case ApiError(status=413):
            return f"the answer of {who} is too large: {error}"
        case _:
            return f"{who} rejected the request: {error}"


def _name(client: Client) -> str:
    servers = client.config.servers
    return f"the server {servers[0]}" if len(servers) == 1 else f"the servers {', '.join(servers)}"
