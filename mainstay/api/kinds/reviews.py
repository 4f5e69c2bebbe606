"""Questions to the server, and Binding: kinds that can only be posted and are kept nowhere.

They are not part of `BUILTIN`, because no store holds them; the server answers them, and lists them in discovery.
"""

from functools import partial

from mainstay.api import kind_names
from mainstay.api.kinds.declare import builtin

_question = partial(builtin, verbs=("create",), has_generation=False)

# Many of them at once (server/placement/batch_binding.py).
BINDINGS = _question(kind_names.BINDINGS)

REVIEWS = (
    _question(kind_names.POD_BINDINGS),
    BINDINGS,
    _question(kind_names.TOKEN_REVIEWS),
    _question(kind_names.SELF_SUBJECT_REVIEWS),
    _question(kind_names.LOCAL_SUBJECT_ACCESS_REVIEWS),
    _question(kind_names.SELF_SUBJECT_ACCESS_REVIEWS),
    _question(kind_names.SELF_SUBJECT_RULES_REVIEWS),
    _question(kind_names.SUBJECT_ACCESS_REVIEWS),
)
