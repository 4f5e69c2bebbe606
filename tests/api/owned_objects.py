"""Objects to own and to apply, as Hypothesis makes them: few names and values, so that they often meet."""

from typing import Any

from hypothesis import strategies as st

POD = "k8s.io.api.core.v1.Pod"

_words = st.sampled_from(["a", "b", "c"])
_values = st.sampled_from(["1", "2"])


def _some(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def _named(fields: dict[str, st.SearchStrategy[Any]], **always: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    element = st.fixed_dictionaries({"name": _words, **always}, optional=fields)
    return st.lists(element, min_size=1, max_size=3, unique_by=lambda each: str(each["name"]))


_maps = st.dictionaries(_words, _values, min_size=1, max_size=3)
_ports = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.sampled_from([80, 81]), "protocol": st.sampled_from(["TCP", "UDP"])},
        optional={"name": _values},
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda each: (each["containerPort"], each["protocol"]),
)
_containers = _named(
    {
        "image": _values,
        "command": st.lists(_values, min_size=1, max_size=2),
        "env": _named({"value": _values}),
        "ports": _ports,
        "securityContext": _some({"privileged": st.just(True)}),
    },
    resources=_some({"requests": _maps}),  # Filled in by defaults.
)
specs = _some(
    {
        "containers": _containers,
        "nodeSelector": _maps,
        "nodeName": _values,
        "tolerations": st.lists(_some({"key": _values}), min_size=1, max_size=2),
    }
)
_metadata = _some(
    {"labels": _maps, "annotations": _maps, "finalizers": st.lists(_words, min_size=1, max_size=3, unique=True)}
)


def pods() -> st.SearchStrategy[dict[str, Any]]:
    """Pods that say something about some of their fields. Nothing in them is empty, as nothing that is stored is."""

    def made(metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "x", **metadata},
            **({"spec": spec} if spec else {}),
        }

    return st.builds(made, _metadata, specs)
