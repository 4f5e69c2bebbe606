"""Replaces attributes by their dotted paths, to plant a bug where pytest is not installed.

For processes that end with the run: what is replaced stays so.
"""

import pkgutil


class AttributePatcher:
    """Has what the weak designs of Mainstay's scenarios use of pytest's MonkeyPatch."""

    def setattr(self, target: str, name: object, /) -> None:
        """Replace what is at a dotted path. Raises `AttributeError` if there is nothing."""
        owner, _, attribute = target.rpartition(".")
        found = pkgutil.resolve_name(owner)
        getattr(found, attribute)
        setattr(found, attribute, name)
