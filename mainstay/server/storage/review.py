"""The last look at a write before it is committed: what may refuse it or warn about it, and changes nothing.

Admission (admission.py) fills in and validation (strategies.py) checks one object by itself, before this. A review may
read: it sees the object as it would be stored, and the namespace that it is in. Dry runs are reviewed too.

Two things are looked at: whether a pod is allowed in its namespace (pod_security.py), and whether the object asks for
something that nothing enforces (api/unenforced.py).
"""

from typing import Final

from mainstay.api.errors import invalid
from mainstay.api.kind import Kind, Object
from mainstay.api.unenforced import SUBRESOURCES
from mainstay.api.unenforced_search import find_refused, find_unenforced, has_rows
from mainstay.server.policies.admission_policies import AdmissionPolicies
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.policy_review import UNSEEN_PARTS, review_policy
from mainstay.server.policies.policy_set import GROUP as POLICY_GROUP
from mainstay.server.request.options import AdmissionNotes
from mainstay.server.storage.pod_security import PodSecurity
from mainstay.server.storage.write_context import WriteContext
from mainstay.store.interface import Entry

_NOT_WANTED: Final = ("metadata", "status", "kind", "apiVersion")
_SUBRESOURCES: Final = {(each.kind.group, each.kind.plural, each.name): each.text for each in SUBRESOURCES}


class WriteReview:
    def __init__(self, security: PodSecurity, policies: AdmissionPolicies) -> None:
        self._security = security
        self.policies = policies.known
        """Those that validate and that the server knows. Ask first whether it is empty."""
        self._evaluate = policies.review

    async def review(
        self,
        kind: Kind,
        new: Object,
        old: Object | None,
        namespace: Entry | None,
        notes: AdmissionNotes,
        subresource: str = "",
    ) -> None:
        """`namespace` is the stored one, if the caller has read it. Raises `StatusError` to refuse the write."""
        if kind.group == POLICY_GROUP:
            await review_policy(kind, new, old, notes)
        if has_rows(kind.group, kind.plural) and (old is None or _is_other(new, old)):
            _review_fields(kind, new, old, notes, subresource)
        if self._security.concerns(kind):
            if namespace is None:
                namespace = await self._security.find_namespace(new["metadata"]["namespace"])
            self._security.review(kind, new, old, namespace, notes)
        elif kind.kind == "Namespace" and kind.group == "":
            await self._security.review_namespace(kind, new, old, notes)

    async def review_by_policies(
        self, write: PolicyWrite, context: WriteContext, namespace: Entry | None = None, *, is_dry_run: bool
    ) -> None:
        """Evaluate the admission policies that match a write of a client. Raises `StatusError` if one denies it."""
        if context.asked is not None and write.subresource not in UNSEEN_PARTS:
            await self._evaluate(write, context.asked, namespace, is_dry_run=is_dry_run)


def _is_other(new: Object, old: Object) -> bool:
    """Whether what is wanted has changed. Who only sets a label is not warned again."""
    for one, other in ((new, old), (old, new)):
        for name in one:
            if name not in _NOT_WANTED and one[name] != other.get(name):
                return True
    return False


def _review_fields(kind: Kind, new: Object, old: Object | None, notes: AdmissionNotes, subresource: str) -> None:
    """Warn about what nothing enforces. Raises `StatusError` (422) for what would be dangerous to accept."""
    if text := _SUBRESOURCES.get((kind.group, kind.plural, subresource)):
        notes.warn(f"{kind.plural}/{subresource}: not enforced: {text}")
    found = None if _has_controller(new) else find_unenforced(kind.group, kind.plural, new)
    causes = find_refused(kind.group, kind.plural, new, old, found)
    if causes:
        raise invalid(kind.kind, kind.group, new["metadata"].get("name", ""), causes)
    for each in found or ():
        notes.warn(str(each) if each.path else f"{kind.kind}: {each}")


def _has_controller(obj: Object) -> bool:
    """Whether it was made by a template, whose author was warned; controllers read no warnings."""
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or ())
