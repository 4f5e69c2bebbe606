"""What a server does with its journal, put together: Decision objects, pages, notes of writes, rules of sampling.

A server without a journal has all of it too: then there is nothing to read, and clients are told so.
"""

import ssl
from collections.abc import Awaitable, Callable, Sequence

from mainstay.api.kinds.decisions import DECISION
from mainstay.env import Env
from mainstay.http.messages import Answer
from mainstay.server.auth.authorization import Authorizers
from mainstay.server.decisions.journal import ServerJournal
from mainstay.server.decisions.pages import JournalPages
from mainstay.server.decisions.peers import PeerJournals
from mainstay.server.decisions.reads import DecisionReads, decision_selection
from mainstay.server.decisions.sampling_rules import SamplingRules
from mainstay.server.request.handlers import Handler, HandlerTable, ResourceCall
from mainstay.server.request.target import Verb
from mainstay.server.services.api_service import ServerEndpoint
from mainstay.server.storage.read_handlers import ReadHandlers, answer_watch
from mainstay.server.watch.feed import Feed
from mainstay.store.interface import Store


class DecisionService:
    def __init__(
        self, journal: ServerJournal | None, store: Store, feed: Feed, env: Env, authorizers: Authorizers
    ) -> None:
        self._journal = journal
        self.pages = JournalPages(journal, authorizers)
        self.notes = None if journal is None else journal.notes
        self.refusals = None if journal is None else journal.refusals
        self._clock = env.clock
        self._reads = DecisionReads(journal, authorizers, env.clock, env.chance.stream("decision watch timeout"))
        self._sampling = None if journal is None else SamplingRules(store, feed, journal.collector.sampler)

    async def start(self) -> None:
        if self._sampling is not None:
            await self._sampling.start()

    def join(
        self,
        find_peers: Callable[[], Awaitable[Sequence[ServerEndpoint]]],
        tls: Callable[[], ssl.SSLContext | None],
        token: str,
    ) -> None:
        """Answer from now on for all servers. See `PeerJournals`."""
        if self._journal is not None:
            self._journal.join(PeerJournals(self._journal.local, find_peers, tls, token))

    async def stop(self) -> None:
        if self._sampling is not None:
            await self._sampling.stop()
        await self._reads.stop()
        self.pages.close()

    def add_handlers(self, table: HandlerTable) -> None:
        reads = ReadHandlers(self._reads.seen_by, self._clock, decision_selection)
        handlers = {
            Verb.GET: Handler(reads.get),
            Verb.LIST: Handler(reads.list),
            Verb.WATCH: Handler(self.watch),
        }
        table.add(DECISION.reference, "", handlers)

    async def watch(self, asked: ResourceCall) -> Answer:
        selection = decision_selection(asked.target, asked.options)
        return answer_watch(asked, self._reads.watch(asked.user, selection, asked.form, asked.options))
