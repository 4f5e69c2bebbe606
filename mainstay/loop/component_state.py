"""What a component says about itself: how far each of its caches has come, what it runs, which policies it has seen.

One small object per component (`mainstay.dev/v1 ComponentState`). Gates of a rollout and the debug view read it, to
tell a component that is behind from one that has decided otherwise. It is written when it has changed, at most every
few seconds, and now and then even if it has not: an old one is itself a sign.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.holds import ParsedHold
from mainstay.api.kind_names import COMPONENT_STATES
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, NotFound
from mainstay.env import Env, tasks, vital
from mainstay.loop.queue.items import Figures

_logger = logging.getLogger(__name__)

ERRORS_WORTH_A_WRITE: Final = 3
"""From so many errors in a row on they are published at once: others hold their rollouts for it."""


@dataclass(frozen=True, slots=True)
class ComponentState:
    revisions: Mapping[str, int] = field(default_factory=dict)
    """By kind, what its cache has completely applied."""
    build: str = ""
    flags: tuple[str, ...] = ()
    policies: Mapping[str, int] = field(default_factory=dict)
    """By name, the revision of each policy that its decisions go by."""
    term: str = ""
    """Of the leader it is; empty if it is none."""
    controllers: Mapping[str, ParsedHold | None] = field(default_factory=dict)
    """Those that work here now, by name, and who of them is held."""

    queues: Mapping[str, Figures] = field(default_factory=dict)
    """Of the controllers that work here now, by name."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """By controller, how many decisions in a row failed through no fault of their objects."""
    policy_figures: Sequence[Mapping[str, Any]] = ()
    """Of a scheduler: what became of its decisions, by placement policy (scheduler/policy_figures.py)."""
    role: str = ""
    """What part of the control plane it is (api/component_roles.py); empty if it is none."""

    @property
    def essence(self) -> dict[str, Any]:
        """What is worth a write at once if it has changed. Queues that are at rest are alike, however much they did;
        and a component that follows these states gets a change with each write, those of its own included."""
        queues = [(name, each.ready, each.backing_off, each.terminal) for name, each in sorted(self.queues.items())]
        failing = [name for name, count in sorted(self.errors.items()) if count >= ERRORS_WORTH_A_WRITE]
        revisions = {kind: each for kind, each in sorted(self.revisions.items()) if kind != COMPONENT_STATES.text}
        return {**self.status(), "queues": queues, "failing": failing, "revisions": revisions}

    def status(self) -> dict[str, Any]:
        return {
            "role": self.role,
            "revisions": dict(sorted(self.revisions.items())),
            "build": self.build,
            "flags": sorted(self.flags),
            "policies": dict(sorted(self.policies.items())),
            "term": self.term,
            # Lists, because a merge patch would keep what is not in a map any more.
            "controllers": sorted(self.controllers),
            "held": [
                {"controller": name, "hold": held.name, "owner": held.owner, "until": held.until}
                for name, held in sorted(self.controllers.items())
                if held is not None
            ],
            "queues": [
                _describe(name, figures, self.errors.get(name, 0)) for name, figures in sorted(self.queues.items())
            ],
            "policyFigures": [dict(each) for each in self.policy_figures],
        }


def _describe(name: str, figures: Figures, errors: int) -> dict[str, Any]:
    return {
        "name": name,
        "ready": figures.ready,
        "readyByPriority": {priority.name.lower(): count for priority, count in figures.ready_by_priority.items()},
        "processing": figures.processing,
        "waiting": figures.waiting,
        "backingOff": figures.backing_off,
        "terminal": figures.terminal,
        "oldestSeconds": round(figures.oldest_age.total_seconds(), 3),
        "oldestProcessingSeconds": round(figures.oldest_processing_age.total_seconds(), 3),
        "added": figures.added,
        "taken": figures.taken,
        "retries": figures.retries,
        "resyncs": figures.resyncs,
        "passedOver": figures.passed_over,
        "errorsInARow": errors,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    every: timedelta = timedelta(seconds=10)
    """At most so often."""
    at_least_every: timedelta = timedelta(minutes=1)
    """Also if nothing has changed."""


def start_publishing(
    name: str, state: Callable[[], ComponentState], client: Client, env: Env, settings: PublishSettings | None = None
) -> asyncio.Task[None]:
    """Keep the object of a component up to date, as a vital task."""
    return vital.spawn(publish(name, state, client, env, settings), name="component-state")


async def publish(
    name: str, state: Callable[[], ComponentState], client: Client, env: Env, settings: PublishSettings | None = None
) -> None:
    """Keep the object of a component up to date, until cancelled. A failure is tried again the next time."""
    settings = settings or PublishSettings()
    last: dict[str, Any] | None = None
    last_ns = 0
    while True:
        found, now_ns = state(), env.clock.monotonic_ns()
        essence = found.essence
        is_old = timedelta(microseconds=(now_ns - last_ns) // 1000) >= settings.at_least_every
        if essence != last or is_old:
            try:
                await _write(name, {**found.status(), "observedAt": times.format_time(env.clock.wall())}, client)
                last, last_ns = essence, now_ns
            except ApiError as error:
                _logger.warning("the state of %s could not be published: %s", name, error)
        await tasks.sleep(settings.every)


async def _write(name: str, status: dict[str, Any], client: Client) -> None:
    write = WriteOptions(field_manager=name)
    try:
        found = await client.get(COMPONENT_STATES, name)
    except NotFound:
        try:
            made = {"metadata": {"name": name}, "spec": {"component": name}}
            found = await client.create(COMPONENT_STATES, made, write=write)
        except AlreadyExists:
            found = {}  # Another one of that name was as fast.
    body = {"status": {**status, **_without_old_keys(found.get("status") or {}, status)}}
    await client.patch(COMPONENT_STATES, name, "", body, subresource="status", write=write)


def _without_old_keys(before: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """The maps, with null for what was in them and is not any more: a merge patch would keep a kind that the component
    followed in another build, at a revision that it never leaves."""
    return {
        name: {**dict.fromkeys([key for key in before.get(name) or () if key not in status[name]]), **status[name]}
        for name in ("policies", "revisions")
    }
