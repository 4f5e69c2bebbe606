"""Bugs by which a right would outlive the role or binding that gave it."""

from collections.abc import Callable, Iterator

import pytest

from mainstay.http.messages import Answer
from mainstay.server.auth.authorization import User
from mainstay.server.rbac.authorizer import RbacAuthorizer
from mainstay.server.rbac.escalation import EscalationPoint
from mainstay.server.rbac.roles import GrantSource, RoleIndex
from mainstay.server.rbac.service import RoleService
from mainstay.server.request.handlers import Answering, ResourceCall
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts

Twin = Callable[[pytest.MonkeyPatch], None]


def remembers_answers_after_a_change(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RbacAuthorizer, "forget", lambda self: None)


def keeps_a_deleted_binding(patch: pytest.MonkeyPatch) -> None:
    honest = RoleIndex.put

    def put(self: RoleIndex, key: str, value: bytes | None, revision: int = 0) -> None:
        if value is not None:
            honest(self, key, value, revision)

    patch.setattr(RoleIndex, "put", put)


def answers_before_a_change_counts(patch: pytest.MonkeyPatch) -> None:
    async def answer(self: RoleService, usual: Answering, asked: ResourceCall) -> Answer:
        return await usual(asked)

    patch.setattr(RoleService, "_answer_taken_in", answer)


REVOCATION_TWINS = (remembers_answers_after_a_change, keeps_a_deleted_binding, answers_before_a_change_counts)


def commits_a_grant_whatever_became_of_the_rights(patch: pytest.MonkeyPatch) -> None:
    async def parts_for(self: EscalationPoint, intended: Intended) -> TransactionParts:
        await honest(self, intended)
        return NOTHING

    honest = EscalationPoint.parts_for
    patch.setattr(EscalationPoint, "parts_for", parts_for)


def forgets_the_roles_that_a_role_aggregates(patch: pytest.MonkeyPatch) -> None:
    def find_sources(self: RoleIndex, user: User, namespace: str) -> Iterator[GrantSource]:
        for source in honest(self, user, namespace):
            yield GrantSource(source.keys[:2], source.rules)

    honest = RoleIndex.find_sources
    patch.setattr(RoleIndex, "find_sources", find_sources)


def checks_what_is_known_after_the_reads(patch: pytest.MonkeyPatch) -> None:
    async def is_current(self: EscalationPoint, known: dict[str, int]) -> bool:
        for key in known:
            await self._store.get(key)
        known.update({key: self._index.find_revision(key) for key in known})
        return await honest(self, known)

    honest = EscalationPoint._is_current
    patch.setattr(EscalationPoint, "_is_current", is_current)


GRANTING_TWINS = (
    commits_a_grant_whatever_became_of_the_rights,
    forgets_the_roles_that_a_role_aggregates,
    checks_what_is_known_after_the_reads,
)
