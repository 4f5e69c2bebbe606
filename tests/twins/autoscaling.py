"""Bugs that an autoscaler could have."""

from dataclasses import replace
from typing import Any

import pytest

from mainstay.api.kind import Object
from mainstay.controllers.autoscaler import decide as deciding
from mainstay.controllers.autoscaler import proposals


def ignores_progress(patch: pytest.MonkeyPatch) -> None:
    """As Kubernetes' own: it goes by what the metrics say, whether or not the target gets what it has asked for."""
    patch.setattr(deciding, "find_scale_limit", lambda target, *evidence: None)


def adds_one_for_safety(patch: pytest.MonkeyPatch) -> None:
    """More than the metrics justify."""
    honest = proposals.propose

    def propose(metric: Object, source: Any) -> proposals.ReplicaProposal:
        found = honest(metric, source)
        return replace(found, replicas=found.replicas + 1) if found.replicas > source.replicas else found

    patch.setattr(deciding, "propose", propose)
