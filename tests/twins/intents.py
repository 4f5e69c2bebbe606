"""Bugs that retries could have: who asks again is not recognised."""

from typing import Any

import pytest

from mainstay.client.client import Client, Creation
from mainstay.client.intent import Intent


def names_writes_after_their_decisions(patch: pytest.MonkeyPatch) -> None:
    """Deciding the same again is another operation."""
    honest = Intent.operation

    def operation(self: Intent, *request: Any, is_conditional: bool) -> str:
        return honest(
            Intent(self.decider, self.decision, f"{self.seen} {self.decision}"), *request, is_conditional=True
        )

    patch.setattr(Intent, "operation", operation)


def takes_what_was_made_before_for_what_is_there(patch: pytest.MonkeyPatch) -> None:
    """A create that was done once is never done again, whatever has become of its object."""
    honest = Client.create_once

    async def create_once(self: Client, *args: Any, **options: Any) -> Creation:
        return Creation((await honest(self, *args, **options)).object, is_repeated=False)

    patch.setattr(Client, "create_once", create_once)
