"""CustomResourceDefinition: kinds that users define.

Only the declaration. What a definition may say is in crd_rules.py, and what it leads to in custom.py.
"""

from mainstay.api import kind_names
from mainstay.api.crd_rules import problems_of_crd
from mainstay.api.custom import defaults_for_crd, prepare_crd
from mainstay.api.kind import STATUS
from mainstay.api.kinds.declare import builtin

CUSTOM_RESOURCE_DEFINITION = builtin(
    kind_names.DEFINITIONS,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=(STATUS,),
    defaults=defaults_for_crd,
    prepare=prepare_crd,
    validate=problems_of_crd,
    put_needs_version=True,
)

KINDS = (CUSTOM_RESOURCE_DEFINITION,)
