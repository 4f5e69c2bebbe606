"""What the agent knows of a pod besides what is stored of it: the memory of lifecycle.py, as frozen values.

The worker (worker.py) gathers them and nothing is decided here. All of it may be lost with the agent: then a
running container keeps the readiness that its stored status shows until it is probed again, a hook whose end was not
reported is run again, and a grace period starts over (the runner keeps to the shorter one).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from mainstay.agent.runner import ContainerId, State


@dataclass(frozen=True, slots=True)
class ContainerWaiting:
    """Why a container could not be begun when that was tried last."""

    reason: str
    """What its status waits with: `CreateContainerConfigError`, `CommandRequired`, …"""
    message: str
    retry_at: datetime | None = None
    """When to try again. None: hopeless as long as the pod is as it is."""
    missing: str = ""
    """The ConfigMap or Secret, or the key in one, that it waits for: `Secret/db`, `ConfigMap/settings/level`."""


class FailedProbe(StrEnum):
    """The probe that says a container has to be ended and started again."""

    LIVENESS = "liveness"
    STARTUP = "startup"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeVerdicts:
    """What the probes of one attempt say, after counting (probe_results.py). Said of a probe that the container does
    not have, it means nothing."""

    is_started: bool | None = None
    """By the startup probe."""
    is_ready: bool | None = None
    """By the readiness probe. None, here and above: it has no verdict yet."""
    failed: FailedProbe | None = None
    """Keep it until the next attempt: it is why the container is started again, however it has ended."""


@dataclass(frozen=True, slots=True)
class HookRunning:
    """The hook has been begun."""


@dataclass(frozen=True, slots=True)
class HookDone:
    """It has succeeded."""


@dataclass(frozen=True, slots=True)
class HookFailed:
    """It has failed, and with it the container."""

    message: str


HookState = HookRunning | HookDone | HookFailed


@dataclass(frozen=True, slots=True)
class PodRefused:
    """The node does not take a pod that was bound to it."""

    reason: str
    """As the kubelet calls it: `OutOfcpu`, `NodeAffinity`, …"""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What is known of a pod at one moment."""

    address: str
    """Of the pod. Empty as long as it has none."""
    host_address: str
    accepted_at: datetime
    """When this agent took the pod on; its `startTime`, unless it has one."""
    instances: Mapping[ContainerId, State] = field(default_factory=dict)
    """From the runner, in order."""
    is_placed: bool = False
    """Its volumes are there."""
    refused: PodRefused | None = None
    waiting: Mapping[str, ContainerWaiting] = field(default_factory=dict)
    """By the container's name. Gone as soon as a try succeeds."""
    probes: Mapping[ContainerId, ProbeVerdicts] = field(default_factory=dict)
    hooks: Mapping[ContainerId, HookState] = field(default_factory=dict)
    """postStart. Nothing: this agent has not begun it."""
    ending_since: datetime | None = None
    """When this agent first saw that it is to end (deletion, deadline, a main container that was the last). Its grace
    runs from then."""
    is_lease_held: bool = True
    """At-most-one containers may start only while it is."""
