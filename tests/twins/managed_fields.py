"""Bugs that the record of who owns which fields could have."""

from collections.abc import Sequence

import pytest

from mainstay.api import managed_fields
from mainstay.api.field_sets import FieldSet
from mainstay.api.kind import Object
from mainstay.api.managed_fields import Owner


def leaves_a_changed_field_to_those_who_share_it(patch: pytest.MonkeyPatch) -> None:
    """The short way looks at the writer's own entry only: the manager that applied the value before still owns it."""
    honest = managed_fields._changed_again

    def changed_again(entries: Sequence[Object], owner: Owner, changed: FieldSet, now: str) -> list[Object] | None:
        own = [entry for entry in entries if managed_fields._owner(entry) == owner]
        again = honest(own, owner, changed, now)
        if again is None:
            return None
        return sorted([*(entry for entry in entries if entry not in own), *again], key=managed_fields._order)

    patch.setattr(managed_fields, "_changed_again", changed_again)
