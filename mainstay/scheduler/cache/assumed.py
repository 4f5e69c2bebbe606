"""Pods that were decided for, and that the cache does not show on their nodes yet.

    sent ──answer: bound at r──► bound ──the cache shows it──► gone from here
      │                            │ the cache is past r and does not show it: the store has gone back
      │ no answer                  ▼
      └────────────────────────► unknown ──asked again, same node, same operation──► bound, or refused

A pod whose binding got no answer may be bound, now or in a moment. Its room stays taken until somebody has said what
became of it: the cache, or the server when the very same binding is sent again. No timer frees it (kubernetes #106361:
what was freed after 30 seconds was given to a second pod). An operation id makes the repeat harmless; without one, on a
Kubernetes server, the repeat of a binding that was done is refused.

Only who is where in this; the room itself is counted by the columns.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from mainstay.scheduler.bind import Bind

_REPEATS_AT_ONCE_MAX: Final = 500


class Knowledge(Enum):
    SENT = auto()
    BOUND = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class AssumedPod:
    bind: Bind
    knowledge: Knowledge = Knowledge.SENT
    revision: int = 0
    """At which it was bound."""


class Assumed:
    """By uid."""

    def __init__(self) -> None:
        self._pods: dict[str, AssumedPod] = {}
        self._unknown: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> AssumedPod | None:
        return self._pods.get(uid)

    @property
    def oldest(self) -> Bind | None:
        """Of those that are here, the one that was sent first."""
        return next(iter(self._pods.values())).bind if self._pods else None

    def send(self, bind: Bind) -> None:
        self._pods[bind.uid] = AssumedPod(bind)

    def bound(self, uid: str, revision: int) -> None:
        """The server says so. 0: bound, and not known when."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._unknown.pop(uid, None)
            self._pods[uid] = replace(pod, knowledge=Knowledge.BOUND, revision=revision)

    def unknown(self, uid: str) -> None:
        """No answer came, or one that nobody understands."""
        pod = self._pods.get(uid)
        if pod is not None:
            self._unknown[uid] = None
            self._pods[uid] = replace(pod, knowledge=Knowledge.UNKNOWN)

    def drop(self, uid: str) -> bool:
        """The cache shows what became of it, or the binding was refused. False if it was not assumed."""
        self._unknown.pop(uid, None)
        return self._pods.pop(uid, None) is not None

    @property
    def has_unknown(self) -> bool:
        return bool(self._unknown)

    def to_repeat(self) -> list[Bind]:
        """Bindings that have to be sent again as they were. They count as sent from now on."""
        uids = list(self._unknown)[:_REPEATS_AT_ONCE_MAX]
        for uid in uids:
            del self._unknown[uid]
            self._pods[uid] = replace(self._pods[uid], knowledge=Knowledge.SENT)
        return [self._pods[uid].bind for uid in uids]

    def missed(self, revision: int, *, has_gone_back: bool) -> list[str]:
        """Said to be bound, and yet not shown by a cache that is as far: nobody knows any more. To be asked now and
        then."""
        found = [
            uid
            for uid, pod in self._pods.items()
            if pod.knowledge is Knowledge.BOUND and (has_gone_back or pod.revision <= revision)
        ]
        for uid in found:
            self.unknown(uid)
        return found
