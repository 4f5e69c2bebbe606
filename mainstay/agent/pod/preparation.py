"""From a pod's spec to what a runner can run: reading what it refers to, making its volumes, and building the specs.

ConfigMaps and Secrets are read from the server each time they are needed, not watched: agents may read those of their
own pods only, and an old copy must not be handed out. What the volumes are made of is read again every minute, while
the pod runs. Turning it into variables, files and commands is plain (environment.py, volumes.py, container_spec.py).
"""

from datetime import timedelta
from typing import Any, Final

from mainstay.agent.node.node import NodeAgent
from mainstay.agent.pod.container_spec import build_container_spec
from mainstay.agent.pod.downward import Surroundings
from mainstay.agent.pod.environment import Missing, Sources, build_environment, find_needs
from mainstay.agent.pod.facts import ContainerWaiting
from mainstay.agent.pod.tokens import PodTokens
from mainstay.agent.pod.volumes import has_content, plan_volumes
from mainstay.agent.runner import CannotRun, ContainerId, ContainerSpec, PodPlace, Runner
from mainstay.agent.settings import AgentSettings
from mainstay.api.annotations import is_at_most_one
from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, SECRETS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Clock
from mainstay.env.machine import user_id

TRY_AGAIN_AFTER: Final = timedelta(seconds=5)
"""When something that a pod needs is not there."""
_COMMAND: Final = ("pretend",)

_KINDS: Final = {
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
}


class Preparing:
    """Prepares the pods of one node."""

    def __init__(self, client: Client, clock: Clock, runner: Runner, node: NodeAgent, settings: AgentSettings) -> None:
        self._client = client
        self._clock = clock
        self._runner = runner
        self._node = node
        self._settings = settings
        self._tokens = PodTokens(client, clock)

    def has_content(self, pod: Object) -> bool:
        """Whether its volumes have to be looked at again now and then."""
        return not self._settings.is_pretend and any(map(has_content, (pod.get("spec") or {}).get("volumes") or ()))

    async def place(self, pod: Object, address: str) -> PodPlace | ContainerWaiting:
        """Make its volumes, or bring them up to date."""
        metadata = pod["metadata"]
        try:
            plans: Any = []
            if not self._settings.is_pretend and (pod.get("spec") or {}).get("volumes"):
                tokens = await self._tokens.collect(pod)
                plans = plan_volumes(pod, await self._collect_sources(pod), tokens, self._surroundings(address))
                if isinstance(plans, Missing):
                    return self._waiting(plans.reason, plans.message, plans.missing)
            return await self._runner.place(metadata["uid"], metadata["namespace"], metadata["name"], plans)
        except CannotRun as error:
            return self._waiting(error.reason, str(error))
        except ApiError as error:
            return self._waiting("FailedMount", f"cannot read the sources of its volumes: {error}")

    async def container_spec(
        self, pod: Object, container: Object, attempt: int, place: PodPlace, address: str
    ) -> ContainerSpec | ContainerWaiting:
        """What is to be run for a container."""
        if self._settings.is_pretend:
            return _pretended(pod, container, attempt, address)
        surroundings = self._surroundings(address)
        try:
            sources = await self._collect_sources(pod)
        except ApiError as error:
            return self._waiting("CreateContainerConfigError", f"what it refers to cannot be read: {error}")
        env = build_environment(pod, container, sources, surroundings)
        if isinstance(env, Missing):
            return self._waiting(env.reason, env.message, env.missing)
        found = build_container_spec(pod, container, attempt, place, env, surroundings)
        if isinstance(found, ContainerWaiting) and found.reason == "CreateContainerConfigError":
            return self._waiting(found.reason, found.message)  # What it refers to may come to be.
        return found

    def forget(self, uid: str) -> None:
        self._tokens.forget(uid)

    def _surroundings(self, address: str) -> Surroundings:
        settings = self._settings
        return Surroundings(
            node_name=settings.name,
            address=address,
            host_address=settings.host_address,
            allocatable=self._node.allocatable,
            service_host=settings.service_host,
            service_port=settings.service_port,
            user=user_id() if settings.container_user is None else settings.container_user,
            has_images=settings.is_pretend,
        )

    async def _collect_sources(self, pod: Object) -> Sources:
        namespace = pod["metadata"]["namespace"]
        found: dict[tuple[str, str], Object] = {}
        for need in find_needs(pod):
            try:
                found[(need.kind, need.name)] = await self._client.get(_KINDS[need.kind], need.name, namespace)
            except NotFound:
                continue
        return found

    def _waiting(self, reason: str, message: str, missing: str = "") -> ContainerWaiting:
        return ContainerWaiting(reason, message, self._clock.wall() + TRY_AGAIN_AFTER, missing)


def _pretended(pod: Object, container: Object, attempt: int, address: str) -> ContainerSpec:
    metadata = pod["metadata"]
    return ContainerSpec(
        id=ContainerId(metadata["uid"], container["name"], attempt),
        namespace=metadata["namespace"],
        pod_name=metadata["name"],
        image=container.get("image") or "",
        command=tuple(container.get("command") or ()) or _COMMAND,
        env=(),
        address=address,
        is_at_most_one=is_at_most_one(pod),
    )
