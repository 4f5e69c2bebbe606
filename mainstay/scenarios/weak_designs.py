"""The designs that the worked examples warn of, planted into the components of a run (`mainstay sim run --bug`).

Production code has no switch for them: each function replaces attributes from outside, in the process of the run, and
the run must fail. Paths are given as texts, so that this module opens no door into rooms that are not its own; a
path that is not there any more is an error at once. Other bugs that the scenarios find are in tests/twins/.
"""

import itertools
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.causes import BindingCause
from mainstay.api.kind import Object
from mainstay.env import Clock
from mainstay.scheduler.bind import Answer, BindRefused, Unknown
from mainstay.sim.narration.steps import BugPatcher
from mainstay.store.interface import ABSENT, Check

_UNUSED: Final = "~unused"
"""A key that no object has."""


def replaces_what_is_unknown_at_once(patch: BugPatcher) -> None:
    """Takes a pod on a silent node for one that is gone. (R5)"""

    def is_active(pod: Object) -> bool:
        return pod_state.is_active(pod) and (pod_state.find_condition(pod, "Ready") or {}).get("status") != "Unknown"

    hasty = SimpleNamespace(**{**vars(pod_state), "is_active": is_active})
    patch.setattr("mainstay.controllers.replicaset.controller.pod_state", hasty)
    patch.setattr("mainstay.controllers.pods.slots.pod_state", hasty)


def binds_again_after_a_timeout(patch: BugPatcher) -> None:
    """The scheduler takes no answer for a no and begins again, and the server does not look whether the pod has a node
    already. (F7)"""
    honest = resolve_name("mainstay.scheduler.bindings.Bindings._answered")

    def answered(self: object, attempt: object, answer: Answer) -> None:
        is_unknown = isinstance(answer, Unknown)
        honest(self, attempt, BindRefused(BindingCause.CAPACITY_CHANGED, "no answer") if is_unknown else answer)

    patch.setattr("mainstay.scheduler.bindings.Bindings._answered", answered)
    patch.setattr("mainstay.server.placement.binding._require_free", lambda pod, wish: None)
    patch.setattr("mainstay.server.placement.charges.Check", lambda key, revision: Check(_UNUSED, ABSENT))


def scales_whatever_is_kept_back(patch: BugPatcher) -> None:
    """The autoscaler goes by its metrics alone, as Kubernetes' own does, and not by what becomes of the replicas that
    it has asked for already. (O8, F5)"""
    patch.setattr("mainstay.controllers.autoscaler.decide.find_scale_limit", lambda target, *evidence: None)


def binds_from_the_cached_view(patch: BugPatcher) -> None:
    """What the scheduler has seen of a node decides, and the server does not check the room at commit. (W9)"""
    patch.setattr("mainstay.server.placement.charges.find_refusal", lambda ledger, revision, charge, asked: None)


def names_reservations_after_the_attempt(patch: BugPatcher) -> None:
    """A name for each attempt, a server that takes any, and leaders that do not wait for what the last one did. (T7)

    Each of them alone would not do: what a leader has to see before it decides is a second line of defence.
    """
    honest = resolve_name("mainstay.loop.term.Term.__init__")

    def begin(self: Any, lease: str, revision: int, clock: Clock) -> None:
        honest(self, lease, revision, clock)
        self.revision = 0

    numbers = itertools.count()
    patch.setattr("mainstay.loop.term.Term.__init__", begin)
    patch.setattr(
        "mainstay.scenarios.duplicate_reservation.reservation_name", lambda *identity: f"attempt-{next(numbers)}"
    )
    patch.setattr("mainstay.api.kinds.mainstay._read_name", lambda spec: _AnyName())


class _AnyName(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False
