"""Checks on the tree as a whole: rooms and their doors, and limits that one module alone cannot show.

A *room* is a package of the second level (`server/watch`), or what lies directly in one of the first (`store`). What a
room lets others import is its *door*, declared in tests/tidy_doors.py; a room's `__init__` is always a door, and so is
all that lies directly in a library (`LIBRARIES`). The other checks here: imports that are allowed and never used,
modules that import too many others, parameter lists, class names that two modules share, functions called `x_of`,
module names that are no nouns, and loops that nothing supervises.

Known debts are listed in tests/tidy_debts.py. A debt that is paid is reported, too, so the lists only shrink.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.tidy import Finding
from tests.tidy_debts import ING_MODULES, LONG_SIGNATURES, OF_FUNCTIONS, WIDE_MODULES
from tests.tidy_doors import DOORS, INNER_DOORS
from tests.tidy_rules import (
    ALLOWED_IMPORTS,
    FAN_OUT_MAX,
    ING_MAX,
    LIBRARIES,
    LOOPS_THAT_MAY_END,
    PARAMETERS_MAX,
    Rule,
)


@dataclass(frozen=True, slots=True)
class Tree:
    """All modules under `mainstay`, and which of them each one imports."""

    paths: Mapping[str, str]
    sources: Mapping[str, ast.Module]
    imports: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, root: Path) -> "Tree":
        """Parse every module under `root/mainstay` that a person wrote."""
        paths: dict[str, str] = {}
        sources: dict[str, ast.Module] = {}
        for file in sorted((root / "mainstay").rglob("*.py")):
            path = file.relative_to(root)
            name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
            if not file.name.endswith(("_pb2.py", "_pb2_grpc.py")):
                paths[name] = path.as_posix()
                sources[name] = ast.parse(file.read_text(), path.as_posix())
        imports = {
            name: frozenset(_find_imports(name, paths[name], tree, paths)) - {name} for name, tree in sources.items()
        }
        return cls(paths, sources, imports)

    def room(self, module: str) -> str:
        """The room a module lies in: `server/watch`, or `store`."""
        parts = module.split(".")[1:]
        if not self.paths[module].endswith("/__init__.py"):
            parts = parts[:-1]
        return "/".join(parts[:2])

    def name_in_room(self, module: str) -> str:
        """What a door calls the module: `feed`, or `ledger.recount` where a room has rooms of its own."""
        depth = len(list(filter(None, self.room(module).split("/"))))
        return ".".join(module.split(".")[1 + depth :])


def _find_imports(name: str, path: str, tree: ast.Module, known: Mapping[str, str]) -> Iterator[str]:
    here = name.split(".") if path.endswith("/__init__.py") else name.split(".")[:-1]
    for node in ast.walk(tree):
        imported: list[str] = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            imported = [f"{module}.{alias.name}" for alias in node.names]
        for full in imported:
            found = full
            while found and found not in known:
                found = found.rpartition(".")[0]
            if found:
                yield found


Doors = Mapping[str, str]  # By room: the names of its modules that others may import, separated by spaces.


@dataclass(slots=True)
class UsedDoors:
    """What the imports of today use: modules that other packages import, and those that only other rooms of one do."""

    outer: dict[str, set[str]] = field(default_factory=dict)
    inner: dict[str, set[str]] = field(default_factory=dict)


def find_used_doors(tree: Tree) -> UsedDoors:
    """Which modules are imported from outside their room."""
    used = UsedDoors()
    for user, target in _crossings(tree):
        room, name = tree.room(target), tree.name_in_room(target)
        is_outer = _package(user) != _package(target)
        (used.outer if is_outer else used.inner).setdefault(room, set()).add(name)
    for room, names in used.inner.items():
        names -= used.outer.get(room, set())
    return used


def _crossings(tree: Tree) -> Iterator[tuple[str, str]]:
    """Pairs of modules of which the first imports the second from another room, past that room's `__init__`."""
    for user, targets in sorted(tree.imports.items()):
        for target in sorted(targets):
            if not tree.name_in_room(target) or tree.room(user) == tree.room(target):
                continue
            if tree.room(target) == _package(target) and _package(target) in (_package(user), *LIBRARIES):
                continue  # What lies directly in a package is open to the rooms of that package.
            yield user, target


def _package(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def check_rooms(tree: Tree, outer: Doors, inner: Doors) -> Iterator[Finding]:
    """Imports past a door, and doors that no import uses."""
    for user, target in _crossings(tree):
        room, name = tree.room(target), tree.name_in_room(target)
        is_inside = _package(user) == _package(target)
        doors = [*outer.get(room, "").split(), *(inner.get(room, "").split() if is_inside else ())]
        if name not in doors:
            yield Finding(tree.paths[user], 1, Rule.INTERNAL, f"{room}: {name}")
    used = find_used_doors(tree)
    for declared, names_used in ((outer, used.outer), (inner, used.inner)):
        for room, names in declared.items():
            for name in sorted({*names.split()} - names_used.get(room, set())):
                yield Finding("tests/tidy_doors.py", 1, Rule.STALE_DOOR, f"{room}: {name}")


def check_directions(tree: Tree, allowed: Mapping[str, Iterable[str]]) -> Iterator[Finding]:
    """Imports between packages that are allowed and that no module makes."""
    used = {(_package(user), _package(target)) for user, targets in tree.imports.items() for target in targets}
    for package, below in allowed.items():
        for target in below:
            if (package, target) not in used:
                yield Finding("tests/tidy_rules.py", 1, Rule.STALE_DIRECTION, f"{package} may import {target}")


def check_fan_out(tree: Tree, debts: Iterable[str]) -> Iterator[Finding]:
    """Modules that import more of our modules than one can keep in mind."""
    wide = {tree.paths[m]: len(targets) for m, targets in tree.imports.items() if len(targets) > FAN_OUT_MAX}
    for path in sorted(wide.keys() - {*debts}):
        yield Finding(path, 1, Rule.FAN_OUT, f"imports {wide[path]} modules")
    yield from _paid({*debts} - wide.keys())


def check_parameters(tree: Tree, debts: Iterable[str]) -> Iterator[Finding]:
    """Functions with too many parameters. Click commands are excepted: each of theirs is an option."""
    long: dict[str, Finding] = {}
    for module, source in tree.sources.items():
        path = tree.paths[module]
        for function in ast.walk(source):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_command(function):
                count = _count_parameters(function)
                if count > PARAMETERS_MAX:
                    what = f"{function.name} has {count} parameters"
                    long[f"{path} {function.name}"] = Finding(path, function.lineno, Rule.PARAMETERS, what)
    yield from (long[name] for name in sorted(long.keys() - {*debts}))
    yield from _paid({*debts} - long.keys())


def _is_command(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator).startswith("click.") for decorator in function.decorator_list)


def _count_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len(named) - (1 if named and named[0].arg in ("self", "cls") else 0)


def check_class_names(tree: Tree) -> Iterator[Finding]:
    """Public classes of one name in two modules: a reader of an import should know which one it means."""
    found: dict[str, list[str]] = {}
    for module, source in tree.sources.items():
        for node in source.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(tree.paths[module])
    for name, paths in sorted(found.items()):
        if len(paths) > 1:
            yield Finding(paths[0], 1, Rule.CLASS_NAME, f"{name} in {', '.join(paths)}")


def check_function_names(tree: Tree, excused: Iterable[str]) -> Iterator[Finding]:
    """Functions called `x_of`, which does not say whether x is found, parsed, built or counted."""
    found: dict[str, Finding] = {}
    for module, source in tree.sources.items():
        path = tree.paths[module]
        for node in ast.walk(source):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.endswith("_of"):
                found[f"{path} {node.name}"] = Finding(path, node.lineno, Rule.FUNCTION_NAME, node.name)
    yield from (found[name] for name in sorted(found.keys() - {*excused}))
    yield from _paid({*excused} - found.keys())


def check_module_names(tree: Tree, nouns: Iterable[str]) -> Iterator[Finding]:
    """Modules named for an activity. The few that are nouns of the domain are listed."""
    found = {path for path in tree.paths.values() if path.endswith("ing.py")}
    for path in sorted(found - {*nouns}):
        yield Finding(path, 1, Rule.MODULE_NAME, "ends in -ing")
    yield from _paid({*nouns} - found)
    if len(found) > ING_MAX:
        yield Finding("tests/tidy_debts.py", 1, Rule.MODULE_NAME, f"{len(found)} modules end in -ing")


def check_loops(tree: Tree, may_end: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    """Loops without an end that `tasks.spawn` starts, as far as they are in the module that starts them."""
    excused = {*may_end}
    for dotted, module in sorted(tree.sources.items()):
        path = tree.paths[dotted]
        loops = {
            each.name
            for each in ast.walk(module)
            if isinstance(each, ast.AsyncFunctionDef) and any(_is_endless(statement) for statement in ast.walk(each))
        }
        for call in ast.walk(module):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) != "tasks.spawn" or not call.args:
                continue
            work = call.args[0]
            name = ast.unparse(work.func).rpartition(".")[2] if isinstance(work, ast.Call) else ""
            if name in loops and (path, name) not in excused:
                yield Finding(path, call.lineno, Rule.UNSUPERVISED, name)
            excused.discard((path, name))
    yield from (Finding(path, 1, Rule.STALE_EXCEPTION, name) for path, name in sorted(excused))


def _is_endless(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.While) and isinstance(statement.test, ast.Constant) and statement.test.value is True
    )


def _paid(debts: Iterable[str]) -> Iterator[Finding]:
    for debt in sorted(debts):
        yield Finding("tests/tidy_debts.py", 1, Rule.STALE_EXCEPTION, debt)


def check_house(root: Path) -> list[Finding]:
    """Everything that is wrong with the tree under `root`, by the tables of tests/."""
    tree = Tree.read(root)
    return sorted(
        (
            *check_rooms(tree, DOORS, INNER_DOORS),
            *check_directions(tree, ALLOWED_IMPORTS),
            *check_fan_out(tree, WIDE_MODULES),
            *check_parameters(tree, LONG_SIGNATURES),
            *check_class_names(tree),
            *check_function_names(tree, OF_FUNCTIONS),
            *check_module_names(tree, ING_MODULES),
            *check_loops(tree, LOOPS_THAT_MAY_END),
        )
    )
