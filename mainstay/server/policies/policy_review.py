"""A policy is compiled when it is written: what does not compile is refused, with the position of what is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mainstay.api.errors import StatusCause, invalid, invalid_value
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_names import MUTATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICIES
from mainstay.api.kinds.admission import PATCH_TYPES
from mainstay.cel.errors import BadExpression
from mainstay.cel.program import CelProgram, Language
from mainstay.cel.syntax_tree import NameNode, SelectNode, find_field_root
from mainstay.env import tasks
from mainstay.server.policies.expressions import language, mutation_language
from mainstay.server.request.options import AdmissionNotes

UNSEEN_PARTS: Final = (
    *("attach", "binding", "eviction", "exec", "finalize"),
    *("log", "portforward", "proxy", "scale", "token"),
)
"""Subresources that policies do not see."""
_AT_ONCE: Final = 20  # Expressions that are compiled before other requests have their turn.
_TRUTH: Final = ("BOOL", "DYN")
_TEXT: Final = ("STRING", "DYN")
_TEXT_OR_NULL: Final = ("STRING", "NULL", "DYN")
_PATCHES: Final = {"ApplyConfiguration": ("MAP", "DYN"), "JSONPatch": ("LIST", "DYN")}
_SHOWN: Final = {"MAP": "Object", "LIST": "a list of JSONPatch"}
_UNTYPED: Final = ("object", "oldObject", "params")
"""Variables whose fields have no declared type, in Kubernetes either: one that is read as it is may be of any."""
_Found = tuple[str, str, tuple[str, ...], Mapping[str, str]]
"""The path of an expression, its text, the types that it may have, and the variables of the policy that it may use,
each with its expression."""
_NO_VARIABLES: Final[Mapping[str, str]] = {}


async def review_policy(kind: Kind, new: Object, old: Object | None, notes: AdmissionNotes) -> None:
    """Warn about what a policy or a binding asks for that is not evaluated. Raises `StatusError` (422) if an expression
    of a policy cannot be used."""
    if old is not None and old.get("spec") == new.get("spec"):
        return
    spec = new["spec"]
    for field in ("matchConstraints", "matchResources"):
        _warn_about_rules((spec.get(field) or {}).get("resourceRules") or (), f"spec.{field}", notes)
    if kind.kind == VALIDATING_ADMISSION_POLICIES.kind:
        written_in = language()
    elif kind.kind == MUTATING_ADMISSION_POLICIES.kind:
        written_in = mutation_language()
    else:
        return
    causes: list[StatusCause] = []
    for count, (path, source, types, variables) in enumerate(_find_expressions(spec)):
        has_parameters = spec.get("paramKind") is not None
        problem = _find_problem(written_in, source, types, variables, has_parameters=has_parameters)
        if problem:
            causes.append(invalid_value(path, source, problem))
        if count % _AT_ONCE == _AT_ONCE - 1:
            await tasks.turns(1)
    if causes:
        raise invalid(kind.kind, kind.group, new["metadata"].get("name", ""), causes)


def _warn_about_rules(rules: Sequence[Mapping[str, Any]], here: str, notes: AdmissionNotes) -> None:
    for number, rule in enumerate(rules):
        if "CONNECT" in (rule.get("operations") or ()):
            notes.warn(f"{here}.resourceRules[{number}].operations: not enforced: policies do not see CONNECT")
        for resource in rule.get("resources") or ():
            part = resource.partition("/")[2]
            if part in UNSEEN_PARTS or part == "*":
                text = f"not enforced for {', '.join(UNSEEN_PARTS)}" if part == "*" else "not enforced"
                notes.warn(f"{here}.resourceRules[{number}].resources: {resource}: {text}")


def _find_expressions(spec: Mapping[str, Any]) -> Iterator[_Found]:
    for number, each in enumerate(spec.get("matchConditions") or ()):
        yield f"spec.matchConditions[{number}].expression", each["expression"], _TRUTH, _NO_VARIABLES
    names: dict[str, str] = {}
    for number, each in enumerate(spec.get("variables") or ()):
        yield f"spec.variables[{number}].expression", each["expression"], (), dict(names)
        names[each["name"]] = each["expression"]
    for number, each in enumerate(spec.get("validations") or ()):
        here = f"spec.validations[{number}]"
        yield f"{here}.expression", each["expression"], _TRUTH, names
        if each.get("messageExpression"):
            yield f"{here}.messageExpression", each["messageExpression"], _TEXT, names
    for number, each in enumerate(spec.get("mutations") or ()):
        field = PATCH_TYPES[each["patchType"]]
        here = f"spec.mutations[{number}].{field}.expression"
        yield here, each[field]["expression"], _PATCHES[each["patchType"]], names
    for number, each in enumerate(spec.get("auditAnnotations") or ()):
        yield f"spec.auditAnnotations[{number}].valueExpression", each["valueExpression"], _TEXT_OR_NULL, names


def _find_problem(
    written_in: Language, source: str, types: tuple[str, ...], variables: Mapping[str, str], *, has_parameters: bool
) -> str:
    try:
        program = written_in.compile(source)
    except BadExpression as error:
        text = f"compilation failed: {error}"
        return f"{text}: the variable authorizer is not supported" if "'authorizer" in text else text
    if types:
        problem = _find_wrong_type(_follow_variables(written_in, program, variables), types)
        if problem:
            return problem
    if "params" in program.names and not has_parameters:
        return "compilation failed: undeclared reference to 'params': the policy has no paramKind"
    return _find_undeclared(program, variables)


def _find_wrong_type(program: CelProgram, types: tuple[str, ...]) -> str:
    wanted = " or ".join(_SHOWN.get(each, each.lower()) for each in types if each != "DYN")
    if program.result_type.partition("<")[0] not in types:
        return f"must evaluate to {wanted}, not to {program.result_type.lower()}"
    if program.result_type == "DYN" and find_field_root(program.tree) in _UNTYPED:
        form = f"{program.source} == true" if types == _TRUTH else f"string({program.source})"
        hint = "" if types in _PATCHES.values() else f"; for example {form}"
        return f"must evaluate to {wanted}, and the type of a field of an object is not known{hint}"
    return ""


def _follow_variables(written_in: Language, program: CelProgram, variables: Mapping[str, str]) -> CelProgram:
    """What an expression stands for that is only the name of a variable."""
    for _ in variables:
        match program.tree:
            case SelectNode(operand=NameNode(name="variables"), field=name) if name in variables:
                try:
                    program = written_in.compile(variables[name])
                except BadExpression:  # Which is reported for the variable.
                    return program
            case _:
                return program
    return program


def _find_undeclared(program: CelProgram, variables: Mapping[str, str]) -> str:
    if "variables" not in program.names:
        return ""
    if not variables:
        return "compilation failed: undeclared reference to 'variables': there are none here"
    for name in program.find_selected("variables"):
        if name not in variables:
            return f"compilation failed: undefined field '{name}' of variables: declare it, before it is used"
    return ""
