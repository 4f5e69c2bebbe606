"""Checks on the source itself: who may ask the outside, who may import whom, and a few habits.

`check_source` looks at one module, `check_tree` at all of them. Names are resolved through imports and aliases before
they are judged, so `import time as t; t.time()` is found and `self.time()` is not. This guards against slips and proves
nothing: an author who wants to get around it can. Types are not known here; where a method of an unknown object has to
be judged by its name (`path.read_text()`), that is done only in modules that import the type it belongs to.

What is a slip is said by the tables of tests/tidy_rules.py.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.tidy_names import SET, Names
from tests.tidy_rules import (
    ALLOWED_IMPORTS,
    EXCEPTIONS,
    LINES_MAX,
    METHODS,
    METHODS_OF_ONE_ARGUMENT,
    ORDER_FREE,
    ORDER_KEEPING,
    OUTSIDE,
    OUTSIDE_CALLS,
    SEAMS_BESIDE_ENV,
    Rule,
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place where the source breaks a rule."""

    path: str
    line: int
    rule: Rule
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}: {self.rule}"


def check_tree(root: Path, exceptions: Iterable[tuple[str, str]] = EXCEPTIONS) -> list[Finding]:
    """Everything that is wrong under `root/mainstay`. An exception that excused nothing is wrong, too."""
    unused = set(exceptions)
    findings = []
    for file in sorted((root / "mainstay").rglob("*.py")):
        if file.name.endswith(("_pb2.py", "_pb2_grpc.py")):
            continue  # Generated, and not for people.
        path = file.relative_to(root).as_posix()
        for finding in check_source(path, file.read_text()):
            excuse = next((e for e in sorted(exceptions) if _excuses(e, finding)), None)
            if excuse is None:
                findings.append(finding)
            else:
                unused.discard(excuse)
    findings += [Finding(path, 1, Rule.STALE_EXCEPTION, what) for path, what in unused]
    return sorted(findings)


def _excuses(exception: tuple[str, str], finding: Finding) -> bool:
    path, what = exception
    return finding.path == path and (finding.what == what or finding.what.startswith(what + "."))


def check_source(path: str, source: str) -> list[Finding]:
    """What is wrong with one module. `path` is relative to the repository: `mainstay/store/memory.py`."""
    tree = ast.parse(source, path)
    findings = sorted({*_Module(path, tree).findings, *_check_form(path, source, tree)})
    return [finding for finding in findings if finding.rule not in _rules_lifted(path)]


def _rules_lifted(path: str) -> frozenset[Rule]:
    if path.startswith(SEAMS_BESIDE_ENV):
        return Rule.outside()
    match package_of(path):
        case "env":
            return Rule.outside()
        case "sim":
            return Rule.outside() | {Rule.SET_ORDER}
        case "cli":
            return frozenset({Rule.PRINT})
        case _:
            return frozenset()


def package_of(path: str) -> str:
    """The part of Mainstay a module belongs to: `store` for `mainstay/store/memory.py`, `__init__` for the root."""
    return PurePosixPath(path).parts[1].removesuffix(".py")


def _check_form(path: str, source: str, tree: ast.Module) -> Iterator[Finding]:
    package = package_of(path)
    if package not in ALLOWED_IMPORTS:
        yield Finding(path, 1, Rule.UNKNOWN_PACKAGE, package)
    if ast.get_docstring(tree) is None:
        yield Finding(path, 1, Rule.DOCSTRING, "no docstring")
    lines = source.count("\n")
    if lines > LINES_MAX:
        yield Finding(path, lines, Rule.LENGTH, f"{lines} lines")


class _Module(Names):
    """Walks one module and collects findings."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.findings: list[Finding] = []
        self._imported: set[str] = set()
        self._order_is_free: set[ast.AST] = set()  # Expressions whose consumer does not care about order.
        super().__init__(path, tree)

    def _found(self, node: ast.expr | ast.stmt, rule: Rule, what: str) -> None:
        self.findings.append(Finding(self.path, node.lineno, rule, what))

    # Imports.

    def imports(self, node: ast.stmt, imported: str) -> None:
        self._imported.add("pathlib" if imported == "pathlib.Path" else imported)
        rule = outside_rule(imported)
        if rule is not None and not _has_innocent_part(imported):
            self._found(node, rule, imported)
        root, _, rest = imported.partition(".")
        if root == "mainstay" and rest:
            package, target = package_of(self.path), rest.partition(".")[0]
            if target != package and target not in ALLOWED_IMPORTS.get(package, ()):
                self._found(node, Rule.DIRECTION, f"{package} imports {target}")

    # Uses.

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._check_use(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not self._check_use(node):
            self.generic_visit(node)
            return
        start = node.value
        while isinstance(start, ast.Attribute):
            start = start.value
        if not isinstance(start, ast.Name):
            self.visit(start)  # A call, whose arguments are still to be looked at.

    def _check_use(self, node: ast.Name | ast.Attribute) -> bool:
        """Judge a name or a chain of attributes. True if it is known what it stands for."""
        origin = self.resolve(node)
        if origin is None:
            if isinstance(node, ast.Attribute):
                self._check_method(node)
            return False
        if origin == "builtins.print":
            self._found(node, Rule.PRINT, "print")
        elif (rule := outside_rule(origin)) is not None:
            self._found(node, rule, origin)
        return True

    def _check_method(self, node: ast.Attribute) -> None:
        if _is_own(node):
            return
        for module, rules in METHODS.items():
            if module in self._imported and node.attr in rules:
                self._found(node, rules[node.attr], f"{module} .{node.attr}")

    def visit_Call(self, node: ast.Call) -> None:
        function = self.resolve(node.func)
        if function in OUTSIDE_CALLS:
            self._found(node, OUTSIDE_CALLS[function], f"{function}()")
        match node:
            case ast.Call(func=ast.Attribute(attr=name) as method, args=[_], keywords=[]) if (
                name in METHODS_OF_ONE_ARGUMENT
                and function is None
                and "pathlib" in self._imported
                and not _is_own(method)
            ):
                self._found(node, METHODS_OF_ONE_ARGUMENT[name], f"pathlib .{name}")
        if function in ORDER_FREE:
            for argument in node.args:
                self._free_of_order(argument)
        self._check_call_order(node, function)
        self.generic_visit(node)

    # Order of sets.

    def _check_call_order(self, node: ast.Call, function: str | None) -> None:
        match node.func:
            case ast.Attribute(value=value, attr="pop") if self.resolve(value) == SET:
                self._found(node, Rule.SET_ORDER, "set.pop")
        joins = isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "extend")
        if (function in ORDER_KEEPING or joins) and node not in self._order_is_free:
            for argument in node.args:
                self._check_order(argument)

    def visit_For(self, node: ast.For) -> None:
        self._check_order(node.iter)
        self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._visit_comprehension(node)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._visit_comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._visit_comprehension(node)

    def _visit_comprehension(self, node: ast.GeneratorExp | ast.ListComp | ast.DictComp) -> None:
        if node not in self._order_is_free:
            for part in node.generators:
                self._check_order(part.iter)
        self.generic_visit(node)

    def visit_Starred(self, node: ast.Starred) -> None:
        if isinstance(node.ctx, ast.Load) and node not in self._order_is_free:
            self._check_order(node.value)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._free_of_order(node)  # `{*some_set}` is a set again.
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self._check_order(node.value)
        self.generic_visit(node)

    def _free_of_order(self, node: ast.expr) -> None:
        """Remember that the order of this iteration is not observable, nor that of what it is made from."""
        self._order_is_free.add(node)
        match node:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                self._order_is_free.update(parts)
            case ast.Call(args=parts) if self.resolve(node.func) in ORDER_KEEPING:
                for part in parts:
                    self._free_of_order(part)

    def _check_order(self, node: ast.expr) -> None:
        if self.resolve(node) == SET:
            self._found(node, Rule.SET_ORDER, "iterates over a set")


def outside_rule(origin: str) -> Rule | None:
    """The rule that a use of this dotted name breaks. The longest part of it that a table knows decides."""
    parts = origin.split(".")
    for length in range(len(parts), 0, -1):
        known = ".".join(parts[:length])
        if known in OUTSIDE:
            return OUTSIDE[known]
    return None


def _has_innocent_part(origin: str) -> bool:
    return any(rule is None and name.startswith(origin + ".") for name, rule in OUTSIDE.items())


def _is_own(method: ast.Attribute) -> bool:
    return isinstance(method.value, ast.Name) and method.value.id in ("self", "cls")
