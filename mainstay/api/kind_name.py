"""How a kind is named: enough to write its addresses, and nothing of what it means.

A `Kind` (kind.py) is all that a server knows of a kind; a `KindName` is what everybody else needs of it: clients,
caches, journals, metrics. It is a small value that is equal to another one with the same parts and can be a key of a
dict.
"""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote


@lru_cache(maxsize=4096)  # On the way of every request, and the same names come again and again.
def _quoted(name: str) -> str:
    return quote(name, safe="")


@dataclass(frozen=True, slots=True)
class KindName:
    """For example `KindName("apps", "v1", "Deployment", "deployments", True)`."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def group_version(self) -> str:
        """What objects carry as `apiVersion`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def text(self) -> str:
        """How the kind is named in views, journals and metrics: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The address of an object, of a part of it, or of all objects in a namespace or in all of them."""
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if namespace and self.namespaced:
            parts += ("namespaces", _quoted(namespace))
        parts.append(self.plural)
        if name:
            parts.append(_quoted(name))
            if subresource:
                parts.append(subresource)
        return "/".join(parts)

    def __str__(self) -> str:
        return self.text


def message_name(group: str, version: str, kind: str) -> str:
    """What the message of a built-in kind is called: `k8s.io.api.apps.v1.Deployment`."""
    if group == "apiextensions.k8s.io":
        return f"k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.{version}.{kind}"
    if group == "meta.k8s.io":
        return f"k8s.io.apimachinery.pkg.apis.meta.{version}.{kind}"
    return f"k8s.io.api.{group.partition('.')[0] or 'core'}.{version}.{kind}"
