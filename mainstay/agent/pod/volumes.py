"""The volumes of a pod as plans: which directories it needs, and which files are in them.

`plan_volumes` resolves what a pod says into what a runner has to make: an empty directory, a directory of the machine,
or files with their content and modes. Content comes from ConfigMaps, Secrets, the pod itself (downward API), its
service account's token, or several of these in one directory (projected). Called again with newer sources it gives
newer plans; how a runner brings a volume up to date is its own business.

A volume that cannot be made yet is `Missing`, with the reason and words of the kubelet's Event; so is one of a kind
that needs a storage driver, which this agent does not have.

Pure: nothing here touches a file.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mainstay.agent.pod.downward import Surroundings, Unresolved, read_field, read_resource
from mainstay.agent.pod.environment import CONFIG_MAP, SECRET, Missing, Sources, secret_bytes
from mainstay.agent.pod.tokens import Tokens, read_token_need
from mainstay.agent.runner import VolumeFile, VolumePlan
from mainstay.api.kind import Object

FAILED_MOUNT: Final = "FailedMount"
WITH_CONTENT: Final = ("configMap", "secret", "downwardAPI", "projected")
"""The kinds of volumes that have files of ours in them. Containers cannot write there."""

_MODE: Final = 0o644
_GROUP_MAY_READ: Final = 0o440
_TOKEN_MODE: Final = 0o600  # When a group is named that may read it. Else there is only the default mode.
_NOTHING: Final[Mapping[str, Any]] = {}


def plan_volumes(pod: Object, sources: Sources, tokens: Tokens, facts: Surroundings) -> list[VolumePlan] | Missing:
    """All volumes of a pod, in its order. `tokens` has what tokens.py finds that they need."""
    plans = []
    for volume in (pod.get("spec") or _NOTHING).get("volumes") or ():
        try:
            plans.append(_plan_volume(volume, pod, sources, tokens, facts))
        except Unresolved as problem:
            text = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {problem}'
            return Missing(FAILED_MOUNT, text, problem.missing)
    return plans


def has_content(volume: Mapping[str, Any]) -> bool:
    """Whether a volume has files of ours in it: it is read-only, and may change while the pod runs."""
    return any(volume.get(kind) is not None for kind in WITH_CONTENT)


def _plan_volume(
    volume: Mapping[str, Any], pod: Object, sources: Sources, tokens: Tokens, facts: Surroundings
) -> VolumePlan:
    name = volume["name"]
    group = ((pod.get("spec") or _NOTHING).get("securityContext") or _NOTHING).get("fsGroup")
    if (host_path := volume.get("hostPath")) is not None:
        # A group is not given what belongs to the machine.
        return VolumePlan(name=name, host_path=host_path["path"], host_path_type=host_path.get("type") or "")
    if (kind := _find_kind(volume)) in ("", "emptyDir"):
        # A volume that says nothing is an empty directory, as the API has it.
        return VolumePlan(name=name, is_in_memory=(volume.get(kind) or _NOTHING).get("medium") == "Memory", group=group)
    if kind not in WITH_CONTENT:
        raise Unresolved(
            f"volumes of kind {kind} need a storage driver, and this node has none: "
            "use emptyDir, hostPath, configMap, secret, downwardAPI or projected"
        )
    said = volume[kind]
    mode = _MODE if said.get("defaultMode") is None else said["defaultMode"]
    files: dict[str, VolumeFile] = {}
    for source in said.get("sources") or () if kind == "projected" else ({kind: said},):
        for file in _build_files(source, mode, pod, sources, tokens, facts, has_group=group is not None):
            files[file.path] = file
    if group is not None:
        files = {path: VolumeFile(path, each.data, each.mode | _GROUP_MAY_READ) for path, each in files.items()}
    return VolumePlan(name=name, files=tuple(files[path] for path in sorted(files)), group=group)


def _find_kind(volume: Mapping[str, Any]) -> str:
    return next((kind for kind in sorted(volume) if kind != "name" and volume[kind] is not None), "")


def _build_files(
    source: Mapping[str, Any],
    mode: int,
    pod: Object,
    sources: Sources,
    tokens: Tokens,
    facts: Surroundings,
    *,
    has_group: bool,
) -> list[VolumeFile]:
    if (config_map := source.get("configMap")) is not None:
        return _build_entries(CONFIG_MAP, config_map, config_map.get("name") or "", mode, sources)
    if (secret := source.get("secret")) is not None:
        return _build_entries(SECRET, secret, secret.get("secretName") or secret.get("name") or "", mode, sources)
    if (downward := source.get("downwardAPI")) is not None:
        return [_downward(item, mode, pod, facts) for item in downward.get("items") or ()]
    if (of_account := source.get("serviceAccountToken")) is not None:
        token_mode = _TOKEN_MODE if has_group else mode
        return [VolumeFile(of_account["path"], tokens[read_token_need(of_account)].encode(), token_mode)]
    kind = _find_kind({"name": "", **source})
    # What signs and distributes certificates is no part of the cluster: a pod that can do without should say so.
    if (source.get(kind) or _NOTHING).get("optional"):
        return []
    raise Unresolved(f"unsupported projected volume source: {kind or 'none'}")


def _build_entries(kind: str, reference: Mapping[str, Any], name: str, mode: int, sources: Sources) -> list[VolumeFile]:
    found = sources.get((kind, name))
    is_optional = bool(reference.get("optional"))
    if found is None:
        if is_optional:
            return []
        raise Unresolved(f'{kind.lower()} "{name}" not found', f"{kind}/{name}")
    content = _read_content(kind, found)
    everything = [{"key": key, "path": key} for key in sorted(content)]
    items: Iterable[Mapping[str, Any]] = reference.get("items") or everything
    files = []
    for item in items:
        data = content.get(item["key"])
        if data is not None:
            files.append(VolumeFile(item["path"], data, mode if item.get("mode") is None else item["mode"]))
        elif not is_optional:
            word = "config" if kind == CONFIG_MAP else "secret"
            raise Unresolved(f"references non-existent {word} key: {item['key']}", f"{kind}/{name}/{item['key']}")
    return files


def _read_content(kind: str, found: Object) -> dict[str, bytes]:
    data = found.get("data") or _NOTHING
    if kind == SECRET:
        return {key: secret_bytes(found, key) for key in data}
    text = {key: value.encode() for key, value in data.items()}
    return text | {key: b64decode(value) for key, value in (found.get("binaryData") or _NOTHING).items()}


def _downward(item: Mapping[str, Any], mode: int, pod: Object, facts: Surroundings) -> VolumeFile:
    if item.get("fieldRef"):
        text = read_field(pod, item["fieldRef"].get("fieldPath") or "", facts)
    else:
        text = read_resource(pod, {}, item.get("resourceFieldRef") or _NOTHING, facts)
    return VolumeFile(item["path"], text.encode(), mode if item.get("mode") is None else item["mode"])
