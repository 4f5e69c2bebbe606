"""Of what must run at most once, never two run at a time. Judged by what machines really did, not by reports.

- Of a container of a pod, never two attempts at a time: nothing is started twice, regardless of crashes.
- On one machine, never two pods of the same name at a time: the first has ended before its successor starts.
- Of a pod that asks for at-most-one, under whatever uid and on whatever machine, never two at a time.
- What runs well is left alone: there is another attempt only after one that ended by itself, or was ended for a reason.

And what a server is told has ended has ended: no pod is removed by its own agent, and no ghost laid to rest, while
anything of it still runs there.
"""

from typing import TYPE_CHECKING, Final

from mainstay.server.placement.ledger.ledger import LEDGERS, ledger_in
from mainstay.server.storage.keyspace import CORE
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import ContainerEnded, ContainerStarted, Event, RequestReceived, RevisionCommitted
from mainstay.store.interface import Entry

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

_PODS: Final = f"{CORE}/pods/"

LOST: Final = ("ContainerStatusUnknown", "Fenced")
"""How a container ends that was not asked to."""


class AtMostOne:
    name = "at most one"

    def __init__(self, *, may_fail: bool = False) -> None:
        """`may_fail`: containers may end by themselves, so any of them may come again."""
        self._may_fail = may_fail
        self._running: dict[tuple[str, str, int], ContainerStarted] = {}
        self._ended: dict[tuple[str, str], ContainerEnded] = {}
        self._asked: dict[int, RequestReceived] = {}

    def running(self) -> list[ContainerStarted]:
        return list(self._running.values())

    def saw(self, event: Event) -> None:
        match event:
            case ContainerStarted():
                self._began(event)
            case ContainerEnded():
                self._running.pop((event.uid, event.container, event.attempt), None)
                self._ended[(event.uid, event.container)] = event
            case RequestReceived():
                if event.method == "DELETE":
                    self._asked[event.request] = event
            case RevisionCommitted():
                self._committed(event)
            case _:
                pass

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _began(self, began: ContainerStarted) -> None:
        for other in self._running.values():
            if (other.pod, other.container) != (began.pod, began.container):
                continue
            if other.uid == began.uid:
                raise Violated(self.name, f"{began.pod} was started twice", [other, began])
            if other.machine == began.machine:
                raise Violated(self.name, f"{began.pod} was started before its predecessor ended", [other, began])
            if other.is_at_most_one or began.is_at_most_one:
                raise Violated(self.name, f"{began.pod} runs on two machines", [other, began])
        last = self._ended.get((began.uid, began.container))
        if last is not None and not self._may_fail and last.reason not in LOST:
            raise Violated(self.name, f"{began.pod} was stopped without need", [last, began])
        self._running[(began.uid, began.container, began.attempt)] = began

    def _committed(self, commit: RevisionCommitted) -> None:
        if commit.key.startswith(_PODS) and commit.value is None and commit.previous is not None:
            asked = self._asked.get(commit.request or 0)
            pod = decode_commit(commit.previous)
            # Others remove by force, and that is no lie.
            if asked is not None and asked.who == pod["spec"].get("nodeName"):
                self._require_ended(pod["metadata"]["uid"], asked.who, "was deleted by its agent", commit)
        elif commit.key.startswith(LEDGERS) and commit.previous is not None:
            node = commit.key.removeprefix(LEDGERS)
            after = _ghosts(commit, commit.value)
            for uid in _ghosts(commit, commit.previous):
                if uid not in after:
                    self._require_ended(uid, node, "was reported as gone", commit)

    def _require_ended(self, uid: str, machine: str, what: str, commit: RevisionCommitted) -> None:
        for began in self._running.values():
            if began.uid == uid and began.machine == machine:
                raise Violated(self.name, f"{began.pod} {what} but still runs on {machine}", [began, commit])


def _ghosts(commit: RevisionCommitted, value: bytes | None) -> dict[str, object]:
    if value is None:
        return {}
    return dict(ledger_in(Entry(commit.key, value, commit.revision, commit.revision, 1)).ghosts)
