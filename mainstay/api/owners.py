"""Who owns an object, by its references: the one that controls it among them."""

from mainstay.api.kind import Object


def find_controller(obj: Object) -> Object | None:
    """The reference to the owner that controls it."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def is_controlled_by(obj: Object, uid: str) -> bool:
    reference = find_controller(obj)
    return reference is not None and reference.get("uid") == uid
