"""Bugs of an agent that pulls images."""

from datetime import timedelta

import pytest

from mainstay.agent.pod import pulls
from mainstay.agent.pod.facts import ContainerWaiting
from mainstay.agent.pod.pulls import ImagePulls
from mainstay.agent.runner import CannotPull, ContainerId, ContainerSpec, Exited
from mainstay.agent.runners.pretend import PretendRunner
from mainstay.agent.runners.pretend_containers import Behaviour, _Container
from mainstay.api.kind import Object
from mainstay.api.retry_shape import NO_BOUND, RetryShape


def pulls_again_without_backing_off(patch: pytest.MonkeyPatch) -> None:
    """A registry that does not answer is asked again every few seconds."""
    often = RetryShape(
        attempts_max=NO_BOUND, first_delay=timedelta(seconds=1), delay_max=timedelta(seconds=1), jitter=0
    )
    patch.setattr(pulls, "RETRY", often)


def counts_a_failed_pull_as_a_crash(patch: pytest.MonkeyPatch) -> None:
    """What could not be pulled is noted as an attempt that has failed."""
    honest = ImagePulls._failed

    def failed(self: ImagePulls, pod: Object, name: str, pull: pulls._Pull, error: CannotPull) -> ContainerWaiting:
        assert isinstance(self._runner, PretendRunner)
        uid, now = pod["metadata"]["uid"], self._clock.wall()
        attempts = self._runner._containers._pods.setdefault(uid, {})
        id_ = ContainerId(uid, name, len(attempts))
        spec = ContainerSpec(id=id_, namespace="", pod_name="", image=pull.image, command=("x",), env=())
        attempts[id_] = container = _Container(spec, Behaviour())
        container.state = Exited(code=128, reason="StartError", started_at=now, finished_at=now)
        return honest(self, pod, name, pull, error)

    patch.setattr(ImagePulls, "_failed", failed)


def begins_a_container_after_the_first_failed_pull(patch: pytest.MonkeyPatch) -> None:
    """One that was tried is taken for one that is there."""
    honest = ImagePulls.ensure

    def ensure(self: ImagePulls, pod: Object, container: Object) -> ContainerWaiting | None:
        pull = self._pulls.get(container["name"])
        return None if pull is not None and pull.failures else honest(self, pod, container)

    patch.setattr(ImagePulls, "ensure", ensure)
