"""What a reader is shown of a decision: no more than they could find out by reading the objects themselves.

A decision about an object that the reader may not get is left out as a whole. Of others, what they did with objects
that the reader may not get is taken out, and counted in `redacted`; the names of these objects are hidden in all texts,
and so is whatever looks like `namespace/name` in a namespace that the reader may not look into. Those who may
everything see everything.

Not promised: that a text holds nothing else. A name that stands alone in a sentence, of an object that the decision
does not list, cannot be told from a word.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.server.auth.authorization import AccessAttributes, Authorizer, User

HIDDEN: Final = "(hidden)"
_LISTS: Final = ("lookedAt", "actions", "writes", "policies")
_TEXTS: Final = ("message", "reason")
_PATH: Final = re.compile(r"\b([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)/([a-z0-9][-a-z0-9.]{0,252})")

MayGet = Callable[[str, str, str], bool]
"""Whether a user may get an object: of a kind, by its text, in a namespace, of a name."""


def find_rights(user: User, authorizer: Authorizer) -> MayGet | None:
    """What a user may get. None: everything."""
    if user.is_master:
        return None

    def may_get(kind: str, namespace: str, name: str) -> bool:
        plural, _, group = kind.partition(".")
        return authorizer.decide(user, AccessAttributes("get", group, plural, namespace, name)).allowed

    return may_get


def redacted(decision: Object, may_get: MayGet) -> Object | None:
    """The decision as a reader with these rights is shown it. None: not at all."""
    subject = decision.get("subject") or {}
    own = subject.get("namespace", "")
    if not may_get(subject.get("resource", ""), own, subject.get("name", "")):
        return None
    shown = dict(decision)
    hidden: dict[str, None] = {}
    count = 0
    for part in _LISTS:
        kept = []
        for each in decision.get(part) or ():
            if _is_seen(each, may_get):
                kept.append(each)
                continue
            count += 1
            hidden.update(dict.fromkeys(text for text in (each.get("name"), each.get("value")) if text))
        if part in shown:
            shown[part] = kept
    hide = _hiding(hidden, own, may_get)
    for name in _TEXTS:
        if name in shown:
            shown[name] = hide(shown[name])
    if "reasons" in shown:
        shown["reasons"] = [hide(each) for each in shown["reasons"]]
    if "conditions" in shown:
        shown["conditions"] = [{**each, "message": hide(each.get("message", ""))} for each in shown["conditions"]]
    if count:
        shown["redacted"] = count
    # Who asked, on whose behalf, is about others.
    return {name: value for name, value in shown.items() if name not in ("user", "parentDecision")}


def _is_seen(part: dict[str, Any], may_get: MayGet) -> bool:
    return may_get(part.get("kind", ""), part.get("namespace", ""), part.get("name", ""))


def _hiding(names: dict[str, None], own: str, may_get: MayGet) -> Callable[[str], str]:
    # The longest first: a name may be the beginning of another one.
    ordered = sorted(names, key=lambda name: (-len(name), name))
    known = re.compile(rf"(?<![-.\w])(?:{'|'.join(map(re.escape, ordered))})(?![-\w])") if ordered else None

    def hide_path(found: re.Match[str]) -> str:
        namespace = found[1]
        is_seen = namespace == own or may_get("pods", namespace, found[2])
        return found[0] if is_seen else f"{HIDDEN}/{HIDDEN}"

    def hide(text: str) -> str:
        text = _PATH.sub(hide_path, text)
        return text if known is None else known.sub(HIDDEN, text)

    return hide
