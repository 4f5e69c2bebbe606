"""What the names in a module stand for, as far as that can be told without running it.

`Names` walks a module in the order of its source and knows, at each place, where a name or a chain of attributes comes
from: `now` is `time.monotonic` after `from time import monotonic as now`, and nothing known where a parameter is called
so. It also knows two kinds of value that tests/tidy.py asks for: event loops, and sets.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

LOOP = "<loop>"  # What an expression is resolved to when it is an event loop.
SET = "<set>"  # … when it is a set, whose order must not be seen.
_LOOP_NAMES = ("loop", "_loop", "event_loop")
_LOOP_GETTERS = ("get_running_loop", "get_event_loop", "new_event_loop", "get_loop")
_SET_TYPES = ("builtins.set", "builtins.frozenset", "collections.abc.Set", "collections.abc.MutableSet")
_SET_METHODS = ("union", "intersection", "difference", "symmetric_difference", "copy")

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Body = list[ast.stmt] | list[ast.expr]


class _Scope(dict[str, str | None]):
    """Names bound in one block, with what they stand for: a dotted origin, or None when that is not known."""

    def __init__(self, names: Iterable[str] = (), *, is_class: bool = False) -> None:
        super().__init__(dict.fromkeys(names))
        self.is_class = is_class
        self.set_attributes: set[str] = set()  # Of `self`, in a class.


class Names(ast.NodeVisitor):
    """Walks one module and keeps track of what each name stands for. Subclasses look at what they are interested in."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self._scopes = [_Scope(_names_bound(tree.body))]
        for statement in tree.body:
            self.visit(statement)

    def imports(self, node: ast.stmt, imported: str) -> None:
        """Called for each thing that is imported, with its absolute dotted name."""

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imports(node, alias.name)
            root = alias.name.partition(".")[0]  # All that `import a.b` binds.
            self._scopes[-1][alias.asname or root] = alias.name if alias.asname else root

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = self._absolute(node)
        for alias in node.names:
            self.imports(node, f"{module}.{alias.name}")
            self._scopes[-1][alias.asname or alias.name] = f"{module}.{alias.name}"

    def _absolute(self, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        here = PurePosixPath(self.path).with_suffix("").parts
        return ".".join([*here[: len(here) - node.level], *filter(None, [node.module])])

    # Blocks, and what they bind.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node, node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node, [node.body])

    def _visit_function(self, node: _Function, body: _Body) -> None:
        arguments = [a for a in ast.walk(node.args) if isinstance(a, ast.arg)]
        types = {a.arg: self._instance_of(a.annotation) for a in arguments}
        self.visit(node.args)  # Defaults and annotations are evaluated outside, where there are no parameters yet.
        if not isinstance(node, ast.Lambda):
            for outer in (*node.decorator_list, *filter(None, [node.returns])):
                self.visit(outer)
        scope = _Scope(_names_bound(body))
        scope.update(types)
        self._visit_block(scope, body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for outer in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(outer)
        scope = _Scope(_names_bound(node.body), is_class=True)
        self._scopes.append(scope)
        scope.set_attributes.update(self._set_attributes(node))
        self._scopes.pop()
        self._visit_block(scope, node.body)

    def _visit_block(self, scope: _Scope, body: _Body) -> None:
        self._scopes.append(scope)
        for part in body:
            self.visit(part)
        self._scopes.pop()

    def _set_attributes(self, node: ast.ClassDef) -> Iterator[str]:
        for field in node.body:
            match field:
                case ast.AnnAssign(target=ast.Name(name)) if self._instance_of(field.annotation) == SET:
                    yield name
        for part in ast.walk(node):
            match part:
                case ast.AnnAssign(target=ast.Attribute(value=ast.Name("self"), attr=name)):
                    if self._instance_of(part.annotation) == SET:
                        yield name
                case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"), attr=name)], value=value):
                    if self.resolve(value) == SET:
                        yield name

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        match node.targets:
            case [ast.Name(name)]:
                self._scopes[-1][name] = self.resolve(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self._scopes[-1][node.target.id] = self._instance_of(node.annotation)

    # What an expression stands for.

    def resolve(self, node: ast.expr | None) -> str | None:
        """The dotted origin of an expression, `LOOP`, `SET`, or None when it is not known."""
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) if name in _LOOP_NAMES:
                return LOOP
            case ast.Name(name):
                return self._lookup(name)
            case ast.Attribute(value=ast.Name("self"), attr=name) if name in self._set_attributes_here():
                return SET
            case ast.Attribute(value=value, attr=name):
                base = self.resolve(value)
                return None if base is None or base == SET else f"{base}.{name}"
            case ast.Call():
                return self._resolve_call(node)
            case ast.Set() | ast.SetComp():
                return SET
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                return SET if self._is_set_operand(left) or self._is_set_operand(right) else None
        return None

    def _resolve_call(self, node: ast.Call) -> str | None:
        match node.func:
            case ast.Attribute(attr=name) | ast.Name(name) if name in _LOOP_GETTERS:
                return LOOP
            case ast.Attribute(value=value, attr=name) if name in _SET_METHODS and self.resolve(value) == SET:
                return SET
        made_by = self.resolve(node.func)
        if made_by in _SET_TYPES:
            return SET
        # An instance of something of ours: known, hence not judged by the name of its methods.
        return f"{made_by}()" if made_by is not None and made_by.startswith("mainstay.") else None

    def _is_set_operand(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Attribute(attr="keys" | "items"), args=[]):
                return True  # Views of a dict become sets when they are combined.
        return self.resolve(node) == SET

    def _instance_of(self, annotation: ast.expr | None) -> str | None:
        match annotation:
            case ast.BinOp(left=kind, right=ast.Constant(None)) | ast.Subscript(value=kind):
                return self._instance_of(kind)
            case ast.Name() | ast.Attribute():
                kind_name = self.resolve(annotation)
                if kind_name in _SET_TYPES:
                    return SET
                return f"{kind_name}()" if kind_name is not None and kind_name.startswith("mainstay.") else None
        return None

    def _lookup(self, name: str) -> str | None:
        for scope in reversed(self._scopes):
            if scope.is_class and scope is not self._scopes[-1]:
                continue  # A method does not see the names of its class.
            if name in scope:
                return scope[name]
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def _set_attributes_here(self) -> set[str]:
        return next((scope.set_attributes for scope in reversed(self._scopes) if scope.is_class), set())


def _names_bound(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names a block binds, without those of the blocks in it."""
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
                continue
            case ast.Lambda():
                continue
            case ast.Name(name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
        yield from _names_bound(ast.iter_child_nodes(node))
