"""From a container's spec to a `ContainerSpec`: everything resolved, ready for a runner.

The last step before a container is begun. Its environment is known by then (environment.py) and its pod's directories
are there (`Runner.place`); here come the command with its references replaced, who it runs as, what is mounted where
and how much it may use. A container that cannot be run as it asks is `ContainerWaiting`, with the kubelet's reason and
words.

Pure, and called again for each attempt: the same arguments give the same spec.
"""

import posixpath
from collections.abc import Mapping
from typing import Any, Final

from mainstay.agent.pod.downward import Surroundings
from mainstay.agent.pod.environment import CONFIG_ERROR, Environment, empty_in, expanded
from mainstay.agent.pod.facts import ContainerWaiting
from mainstay.agent.pod.security import SecurityRefused, read_security
from mainstay.agent.pod.volumes import has_content
from mainstay.agent.runner import ContainerId, ContainerSpec, Mount, PodPlace
from mainstay.api.annotations import AT_MOST_ONE
from mainstay.api.kind import Object
from mainstay.api.quantity import to_int, to_milli

COMMAND_REQUIRED: Final = "CommandRequired"
_NOTHING: Final[Mapping[str, Any]] = {}


def build_container_spec(
    pod: Object, container: Object, attempt: int, place: PodPlace, env: Environment, facts: Surroundings
) -> ContainerSpec | ContainerWaiting:
    """What a runner runs for a container of a pod, at one attempt."""
    metadata, spec = pod["metadata"], pod["spec"]
    of_pod: Mapping[str, Any] = spec.get("securityContext") or _NOTHING
    security = {**of_pod, **_said(container.get("securityContext") or _NOTHING)}
    command = tuple(expanded(word, env.variables) for word in _build_command(container))
    if not container.get("command") and not facts.has_images:
        return ContainerWaiting(COMMAND_REQUIRED, _command_required(spec, container))
    user = security.get("runAsUser")
    if security.get("runAsNonRoot") and (facts.user if user is None else user) == 0:
        return ContainerWaiting(CONFIG_ERROR, _root_refused(pod, container, user))
    try:
        options = read_security(spec, container)
    except SecurityRefused as refused:
        return ContainerWaiting(CONFIG_ERROR, str(refused))
    mounts = []
    for said in container.get("volumeMounts") or ():
        mount = _build_mount(said, spec, place, env)
        if isinstance(mount, ContainerWaiting):
            return mount
        mounts.append(mount)
    resources = container.get("resources") or _NOTHING
    limits = resources.get("limits") or _NOTHING
    return ContainerSpec(
        id=ContainerId(metadata["uid"], container["name"], attempt),
        namespace=metadata.get("namespace") or "default",
        pod_name=metadata["name"],
        image=container.get("image") or "",
        command=command,
        env=env.pairs,
        working_dir=container.get("workingDir") or "",
        user=user,
        group=security.get("runAsGroup"),
        groups=_build_groups(of_pod),
        security=options,
        mounts=tuple(mounts),
        cpu_millis_wanted=to_milli((resources.get("requests") or _NOTHING).get("cpu") or 0),
        cpu_millis_max=to_milli(limits.get("cpu") or 0) or None,
        memory_bytes_max=to_int(limits.get("memory") or 0) or None,
        address=facts.address,
        has_stdin=bool(container.get("stdin")),
        has_terminal=bool(container.get("tty")),
        message_path=container.get("terminationMessagePath") or "/dev/termination-log",
        is_message_from_log=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
        is_at_most_one=(metadata.get("annotations") or _NOTHING).get(AT_MOST_ONE) == "true",
    )


def _build_command(container: Object) -> tuple[str, ...]:
    return (*(container.get("command") or ()), *(container.get("args") or ()))


def _said(context: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in context.items() if value is not None}


def _build_groups(of_pod: Mapping[str, Any]) -> tuple[int, ...]:
    """The pod's: a container has none of its own. The group of its volumes is one of them."""
    groups = [*(of_pod.get("supplementalGroups") or ())]
    if of_pod.get("fsGroup") is not None:
        groups.append(of_pod["fsGroup"])
    return tuple(dict.fromkeys(groups))


def _build_mount(
    said: Mapping[str, Any], spec: Mapping[str, Any], place: PodPlace, env: Environment
) -> Mount | ContainerWaiting:
    name = said["name"]
    source = place.volumes.get(name)
    if source is None:
        return ContainerWaiting(CONFIG_ERROR, f'cannot find volume "{name}" to mount into the container')
    below = said.get("subPath") or ""
    if said.get("subPathExpr"):
        # A directory that is called after nothing would be that of all who forgot to say.
        if unknown := empty_in(said["subPathExpr"], env.variables):
            return ContainerWaiting(CONFIG_ERROR, f"missing value for {', '.join(unknown)}")
        below = expanded(said["subPathExpr"], env.variables)
    if below.startswith("/"):
        return ContainerWaiting(
            CONFIG_ERROR, f'error SubPath `{below}` of volume "{name}" must not be an absolute path'
        )
    if ".." in below.split("/"):
        return ContainerWaiting(CONFIG_ERROR, f"unable to provision SubPath `{below}`: must not contain '..'")
    volume = next((each for each in spec.get("volumes") or () if each["name"] == name), _NOTHING)
    return Mount(
        source=source,
        path=posixpath.normpath(posixpath.join("/", said["mountPath"])),
        is_read_only=bool(said.get("readOnly")) or has_content(volume),
        sub_path="" if posixpath.normpath(below) == "." else posixpath.normpath(below),
    )


def _command_required(spec: Mapping[str, Any], container: Object) -> str:
    for listed in ("initContainers", "containers"):
        for number, each in enumerate(spec.get(listed) or ()):
            if each["name"] == container["name"]:
                where = f"spec.{listed}[{number}].command"
                return f"set {where}: containers are host processes, there are no images to take a command from"
    return "set the container's command: containers are host processes, there are no images to take a command from"


def _root_refused(pod: Object, container: Object, user: int | None) -> str:
    metadata = pod["metadata"]
    who = f'(pod: "{metadata["name"]}_{metadata.get("namespace")}({metadata["uid"]})", container: {container["name"]})'
    if user is None:
        return f"container has runAsNonRoot and would run as root: set runAsUser {who}"
    return f"container's runAsUser breaks non-root policy {who}"
