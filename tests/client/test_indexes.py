"""Every index that is declared is asked for something by a component."""

import re
from pathlib import Path

import mainstay
from mainstay.controllers.registry import DECIDERS

_PRODUCT = Path(mainstay.__file__).parent
_DECLARED = re.compile(r"^([A-Z_]+): Final = (?:Index|field|label)\(", re.MULTILINE)
_LEFT_OUT = ("scenarios", "sim")
"""Worlds for tests: what only they use is used by no component."""


def read_sources() -> dict[Path, str]:
    paths = [path.relative_to(_PRODUCT) for path in _PRODUCT.rglob("*.py")]
    return {path: (_PRODUCT / path).read_text() for path in paths if path.parts[0] not in _LEFT_OUT}


def test_every_declared_index_has_a_component_that_looks_something_up_in_it():
    sources = read_sources()
    declared = [(path, name) for path, text in sources.items() for name in _DECLARED.findall(text)]

    unused = []
    for path, name in declared:
        users = [
            user
            for user, text in sources.items()
            if re.search(rf"\b{name}\.name\b", text)
            and (user == path or re.search(rf"\b{re.escape(path.stem)} import [^)]*?\b{name}\b", text))
        ]
        if not users:
            unused.append(f"{path}: {name}")

    assert len(declared) > 10
    assert unused == []


def test_controllers_declare_the_indexes_that_they_decide_by():
    declared = {index.name for decider in DECIDERS.values() for reads in decider.reads for index in reads.indexes}

    assert declared >= {"namespace", "node", "zone", "priority-class", "owner", "policy-version"}
