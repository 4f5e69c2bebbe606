"""Objects by what is known of those that they refer to: pods by the zone and the region of their node.

    pods = Join(pods_cache, NODE, nodes_cache)
    pods.by(ZONE.name, "zone-a")        → the keys of the pods whose node is in that zone, sorted

Nothing is kept: each question asks the index of one cache and then that of the other. So a pod is found where its node
is now, from the moment in which it is bound or the labels of its node change, and there is nothing that could fall
behind. It costs as much as there are nodes and pods to be found. The two caches may have reached different revisions: a
pod whose node is not in the cache is found nowhere.
"""

from dataclasses import dataclass

from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.indexes import Index


@dataclass(frozen=True, slots=True)
class Join:
    cache: Cache
    reference: Index
    """By which names the cache finds its objects: those of the others, which have no namespace."""
    referred: Cache

    def by(self, index: str, value: str) -> list[ObjectKey]:
        """The keys of those that refer to one that is found under a value, sorted."""
        names = [key.name for key in self.referred.by(index, value)]
        return self.cache.by_all({self.reference.name: names})

    def count(self, index: str) -> dict[str, int]:
        """How many there are under each value, those without any as well."""
        return {value: len(self.by(index, value)) for value in self.referred.values(index)}
