"""Which kinds are served, and where. Custom kinds come and go while the server runs."""

from collections.abc import Callable, Iterable, Iterator

from mainstay.api.kind import Kind
from mainstay.api.kind_name import KindName
from mainstay.api.kinds import BUILTIN, REVIEWS, metrics
from mainstay.api.kinds.decisions import DECISION
from mainstay.env.invariants import broken


class Registry:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._counts: dict[tuple[str, str], int] = {}
        """How many kinds each group and version has: asked for with every request."""
        self.generation = 0
        """Grows with every change, for those who keep something that was made from it."""
        self._on_removal: list[Callable[[Kind], None]] = []
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve a kind, in place of the one that had its address."""
        if (kind.group, kind.version, kind.plural) not in self._kinds:
            self._counts[kind.group, kind.version] = self._counts.get((kind.group, kind.version), 0) + 1
        self._kinds[kind.group, kind.version, kind.plural] = kind
        self._changed(kind)

    def remove(self, kind: Kind) -> None:
        if self._kinds.pop((kind.group, kind.version, kind.plural), None) is not None:
            self._counts[kind.group, kind.version] -= 1
        self._changed(kind)
        for told in self._on_removal:
            told(kind)

    def _changed(self, kind: Kind) -> None:
        self.generation += 1
        if sum(self._counts.values()) != len(self._kinds):
            story = {"counted": sum(self._counts.values()), "kinds": len(self._kinds)}
            raise broken("each version of a group counts its kinds", kind.reference.text, **story)

    def on_removal(self, told: Callable[[Kind], None]) -> None:
        """Be told of each kind that is no longer served."""
        self._on_removal.append(told)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        return self._kinds.get((group, version, plural))

    def require(self, name: KindName) -> Kind:
        """A kind that is always there."""
        kind = self.find(name.group, name.version, name.plural)
        if kind is None:
            raise AssertionError(f"there is no kind for {name.plural}")
        return kind

    def serves(self, group: str, version: str) -> bool:
        return self._counts.get((group, version), 0) > 0

    def __iter__(self) -> Iterator[Kind]:
        """In the order of group, version and plural."""
        return iter([self._kinds[key] for key in sorted(self._kinds)])

    def versions(self) -> dict[str, list[str]]:
        """The versions of each group, the preferred one first."""
        found: dict[str, list[str]] = {}
        for group, version, _ in sorted(self._kinds):
            if version not in found.setdefault(group, []):
                found[group].append(version)
        return {group: sorted(found[group], key=_version_order) for group in found}


def build_registry() -> Registry:
    """All kinds that are always served."""
    return Registry((*BUILTIN, *REVIEWS, *metrics.KINDS, DECISION))


def _version_order(version: str) -> tuple[int, int, int, str]:
    """v2 before v1 before v1beta2 before v1alpha1, and anything else by its name."""
    digits = version[1:].partition("beta")[0].partition("alpha")[0]
    if not version.startswith("v") or not digits.isdigit():
        return (3, 0, 0, version)
    stage = 1 if "beta" in version else 2 if "alpha" in version else 0
    minor = version.rpartition("beta" if stage == 1 else "alpha")[2] if stage else ""
    return (stage, -int(digits), -int(minor) if minor.isdigit() else 0, version)
