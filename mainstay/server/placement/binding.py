"""Binding: a pod gets its node, for good, if the node has room at that very moment.

This is where a scheduler's choice becomes true, whichever scheduler it is: pod, charge and ledger are written in one
transaction, on condition that none of them has changed. A view that was out of date costs a refusal with a cause, and
a fresh candidate; it never costs room that is not there.

    POST …/pods/NAME/binding   { target: { name: node-c12 } }       any Kubernetes scheduler
    Mainstay-Observed: pods=918812;nodes=918790[;strict]            what the scheduler had seen; strict: refuse if the
                                                                    node has changed since, whatever room there is
    POST /apis/mainstay.dev/v1/bindings                             many at once: batch_binding.py

As in Kubernetes a plain binding to a Node that is not there is accepted. One that says what was observed is not.
"""

from typing import Any, Final, Protocol

from msgspec import Struct

from mainstay.api.annotations import RESERVATION
from mainstay.api.causes import BindingCause
from mainstay.api.errors import bad_request, invalid, not_found
from mainstay.api.kind import Object
from mainstay.api.kinds.pods import POD
from mainstay.server.placement.charges import NO_ROOM_HELD, Charging, HeldRoom
from mainstay.server.placement.ledger.charge import charge_key
from mainstay.server.placement.ledger.ledger import ledger_in, ledger_key
from mainstay.server.placement.ledger.recount import recount
from mainstay.server.placement.ledger.refusals import LedgerRefusal, refused
from mainstay.server.placement.ledger.room import BindOptions
from mainstay.server.placement.observed import Observed, parse_observed
from mainstay.server.placement.pod_to_bind import PodToBind
from mainstay.server.storage.commit_points import NOTHING, TransactionParts
from mainstay.server.storage.committer import Committer, WriteDecision
from mainstay.server.storage.keyspace import CORE, build_key
from mainstay.server.storage.metadata import text_problems
from mainstay.server.storage.shared_writes import SharedWrites
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.write_context import NO_CONTEXT, WriteContext
from mainstay.store.interface import Check, Put, Store, Write

_NO_TEXTS: Final[dict[str, str]] = {}


class BindRequest(Struct, frozen=True):
    """A binding that a scheduler asks for."""

    namespace: str
    name: str
    node: str
    uid: str = ""
    """Only if the pod has this uid; empty for any."""
    annotations: dict[str, str] = _NO_TEXTS
    labels: dict[str, str] = _NO_TEXTS
    """To be copied to the pod, but for those of ours."""
    observed: Observed | None = None
    reservation: str = ""
    scheduled_at: str = ""
    """When the node was chosen, if the scheduler says so."""


class Reservations(Protocol):
    """Where room may have been reserved for a pod."""

    async def claimed(self, name: str, pod: Object, node: str) -> HeldRoom:
        """The room that a reservation of this name, in the pod's namespace, holds for this pod on this node.

        Raises `StatusError` (409, see ledger/refusals.py) if it is for another pod or node.
        """


class BindingHandler:
    def __init__(
        self,
        store: Store,
        shared: SharedWrites,
        committer: Committer,
        charging: Charging,
        reservations: Reservations | None = None,
    ) -> None:
        self._store = store
        self._shared = shared
        self._committer = committer
        self._charging = charging
        self._reservations = reservations

    async def bind(
        self, request: BindRequest, now: str, context: WriteContext = NO_CONTEXT, *, dry_run: bool = False
    ) -> StoredWrite:
        """Bind a pod. Raises `StatusError`: 404, 422, or 409 with a cause (ledger/refusals.py)."""
        if (request.labels or request.annotations) and (causes := text_problems(request.labels, request.annotations)):
            raise invalid("Binding", "", request.name, causes)
        key = build_key(POD, request.namespace, request.name)

        async def decide() -> WriteDecision | None:
            entry = await self._store.get(key)
            if entry is None:
                raise not_found(POD.plural, POD.group, request.name)
            pod = PodToBind(entry)
            _require_free(pod, request)
            parts = await self._parts(pod, request)
            if parts is None:
                return None
            value = pod.bound(request.node, now, request.annotations, request.labels, request.scheduled_at)
            checks = [Check(key, entry.revision), *parts.checks]
            writes: list[Write] = [Put(key, value), *parts.writes]
            return WriteDecision(key, checks, writes, parts.shared, StoredWrite(value, 0))

        return await self._committer.write_once(f'pods "{request.name}"', decide, context, dry_run=dry_run)

    async def _parts(self, pod: PodToBind, request: BindRequest) -> TransactionParts | None:
        """The charge. None if something had to be put right first: look again."""
        if pod.is_over:
            return NOTHING  # It will never run, and so takes nothing.
        ledger = ledger_in(await self._shared.read(ledger_key(request.node)))
        if not ledger.node_uid and await self._is_uncounted(request.node):
            return None
        reservation = request.reservation or pod.annotation(RESERVATION)
        held = NO_ROOM_HELD
        if reservation and self._reservations is not None:
            held = await self._reservations.claimed(reservation, pod.whole(), request.node)
        asked = BindOptions(request.observed, request.observed is not None, pod.bears_cordon)
        charge = pod.charge_on(request.namespace, request.name, request.node)
        return await self._charging.bound(charge_key(request.namespace, request.name), charge, asked, held)

    async def _is_uncounted(self, node: str) -> bool:
        """Whether there is such a Node although no ledger says so: then it is from before there were ledgers."""
        entry = await self._store.get(f"{CORE}/nodes/{node}")
        if entry is None:
            return False
        await recount(self._store, node)
        self._shared.forget(ledger_key(node))
        return True


def parse_binding(namespace: str, name: str, binding: Object, observed: str | None) -> BindRequest:
    """What a Binding asks for. Raises `StatusError` (400) for one that makes no sense."""
    target: dict[str, Any] = binding.get("target") or {}
    node = target.get("name")
    if not node or target.get("kind") not in (None, "", "Node"):
        raise bad_request("a binding needs a target of kind Node with a name")
    given: dict[str, Any] = binding.get("metadata") or {}
    annotations = given.get("annotations") or _NO_TEXTS
    return BindRequest(
        namespace,
        name,
        node,
        given.get("uid") or "",
        annotations,
        given.get("labels") or _NO_TEXTS,
        parse_observed(observed),
        annotations.get(RESERVATION, ""),
    )


def _require_free(pod: PodToBind, request: BindRequest) -> None:
    """Raise `StatusError` (409) unless the pod is the one that is meant, and waits for a node."""
    name = request.name
    if request.uid and request.uid != pod.uid:
        text = "the pod was deleted and created again since"
        raise refused(name, LedgerRefusal(BindingCause.POD_DELETED, text))
    if pod.node:
        text = f'pod {name} is already assigned to node "{pod.node}"'
        raise refused(name, LedgerRefusal(BindingCause.ALREADY_BOUND, text))
    if pod.is_being_deleted:
        text = f"pod {name} is being deleted, cannot be assigned to a host"
        raise refused(name, LedgerRefusal(BindingCause.POD_DELETED, text))
