"""Where mutating policies come into a write: after the defaults, before the server's own admission and validation.

So a policy sees what the user has sent with the defaults filled in, and what it sets is treated as if the user had sent
it: a priority class is resolved, a service account looked up, defaults filled in, and all of it validated. Validating
policies and quotas see the result. Who owns the fields was recorded before: as what was sent.
"""

from mainstay.api.errors import StatusError
from mainstay.api.kind import Kind, Object
from mainstay.server.policies.match_rules import PolicyWrite
from mainstay.server.policies.mutating_policies import MutatingPolicies, blame_mutations
from mainstay.server.policies.policy_review import UNSEEN_PARTS
from mainstay.server.request.options import AdmissionNotes
from mainstay.server.storage.strategies import ObjectPart
from mainstay.server.storage.write_context import WriteContext


class WriteMutation:
    def __init__(self, policies: MutatingPolicies) -> None:
        self._policies = policies

    def applies_to(self, kind: Kind, context: WriteContext, subresource: str = "") -> bool:
        """Whether some policy may change such a write. With every write: most often there is none."""
        known = self._policies.known
        if known.is_empty or context.asked is None or subresource in UNSEEN_PARTS:
            return False
        return bool(known.find(kind.group, kind.plural))

    async def mutate(self, write: PolicyWrite, context: WriteContext, *, is_dry_run: bool) -> Object:
        """What the policies make of the new object: that itself if they leave it alone. Raises `StatusError`."""
        assert context.asked is not None, write
        return await self._policies.mutate(write, context.asked, is_dry_run=is_dry_run)

    async def mutate_part(
        self,
        write: PolicyWrite,
        new: Object,
        old: Object,
        part: ObjectPart,
        context: WriteContext,
        *,
        is_dry_run: bool,
    ) -> Object:
        """`new` and `old` are what a part has of the object. What a policy changes outside of the part is left out."""
        mutated = await self.mutate(write, context, is_dry_run=is_dry_run)
        if mutated is write.new:
            return new
        changed = part.restrict(write.kind, mutated, old)
        owners = new["metadata"].get("managedFields")
        if owners is not None:
            changed["metadata"]["managedFields"] = owners
        part.fill_in(write.kind, changed)
        return changed


def explain_refusal(error: StatusError, notes: AdmissionNotes) -> StatusError:
    """What to answer if an object is not valid: with the policies that have changed it, if there are any."""
    if not notes.mutations:
        return error
    notes.policies = notes.mutations
    return blame_mutations(error, notes.mutations)
