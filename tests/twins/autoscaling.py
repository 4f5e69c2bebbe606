"""Bugs that an autoscaler could have."""

from dataclasses import replace
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.controllers.autoscaler import decide as deciding
from mainstay.controllers.autoscaler import proposals


def adds_one_for_safety(patch: pytest.MonkeyPatch) -> None:
    """More than the metrics justify."""
    honest = proposals.propose

    def propose(metric: Object, source: Any) -> proposals.ReplicaProposal:
        found = honest(metric, source)
        return replace(found, replicas=found.replicas + 1) if found.replicas > source.replicas else found

    patch.setattr(deciding, "propose", propose)
