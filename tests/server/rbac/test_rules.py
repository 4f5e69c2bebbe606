"""What rules of roles allow, and which rules are covered by others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.server.rbac.rules import (
    PolicyRule,
    TooManyValues,
    describe_rules,
    find_uncovered,
    parse_rule,
    split_rule,
)


def a_rule(verbs: str, groups: str = "", resources: str = "", names: str = "", paths: str = "") -> PolicyRule:
    """Words, with `core` for the group without a name."""
    found = tuple("" if each == "core" else each for each in groups.split())
    return PolicyRule(tuple(verbs.split()), found, tuple(resources.split()), tuple(names.split()), tuple(paths.split()))


@pytest.mark.parametrize(
    ("rule", "action", "is_allowed"),
    [
        (a_rule("get list", "core", "pods"), ("get", "", "pods", ""), True),
        (a_rule("get list", "core", "pods"), ("watch", "", "pods", ""), False),
        (a_rule("get", "core", "pods"), ("get", "apps", "pods", ""), False),
        (a_rule("get", "core", "pods"), ("get", "", "pods", "log"), False),
        (a_rule("get", "core", "pods/log"), ("get", "", "pods", "log"), True),
        (a_rule("get", "core", "pods/log"), ("get", "", "pods", ""), False),
        (a_rule("update", "*", "*/scale"), ("update", "apps", "deployments", "scale"), True),
        (a_rule("update", "*", "*/scale"), ("update", "apps", "deployments", "status"), False),
        (a_rule("update", "*", "*/scale"), ("update", "apps", "deployments", ""), False),
        (a_rule("*", "*", "*"), ("deletecollection", "batch", "jobs", "status"), True),
        (a_rule("*", "core", "*"), ("get", "apps", "deployments", ""), False),
        (a_rule("get", "core", "pods"), ("*", "", "pods", ""), False),
        (a_rule("get", paths="/api"), ("get", "", "", ""), False),
    ],
)
def test_a_rule_about_resources(rule, action, is_allowed):
    assert rule.allows_resource(*action) is is_allowed


@pytest.mark.parametrize(
    ("paths", "path", "is_allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/etcd", False),
        ("/healthz/*", "/healthz/etcd", True),
        ("/healthz/*", "/healthz", False),
        ("/openapi*", "/openapi/v3", True),
        ("*", "/anything", True),
        ("/*/b", "/a/b", False),
    ],
)
def test_a_rule_about_paths(paths, path, is_allowed):
    assert a_rule("get", paths=paths).allows_path("get", path) is is_allowed
    assert not a_rule("get", paths=paths).allows_path("post", path)


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ([a_rule("*", "*", "*")], a_rule("get", "apps", "deployments/scale", "web"), []),
        ([a_rule("get list", "core", "pods")], a_rule("get", "core", "pods", "web"), []),
        ([a_rule("get", "core", "pods", "web")], a_rule("get", "core", "pods", "web"), []),
        (
            [a_rule("get", "core", "pods", "web")],
            a_rule("get", "core", "pods"),
            [a_rule("get", "core", "pods")],
        ),
        ([a_rule("get", "core", "pods"), a_rule("list", "core", "pods")], a_rule("get list", "core", "pods"), []),
        ([a_rule("*", "core", "*/scale")], a_rule("get", "core", "pods/scale"), []),
        ([a_rule("*", "core", "pods/*")], a_rule("get", "core", "pods/log"), [a_rule("get", "core", "pods/log")]),
        ([a_rule("get", "core", "pods")], a_rule("get", "core", "*"), [a_rule("get", "core", "*")]),
        ([a_rule("get", "core", "pods")], a_rule("*", "core", "pods"), [a_rule("*", "core", "pods")]),
        ([a_rule("get", paths="/api/*")], a_rule("get", paths="/api/v1 /api/*"), []),
        ([a_rule("get", paths="/api/*")], a_rule("get", paths="/api"), [a_rule("get", paths="/api")]),
    ],
)
def test_what_is_missing_to_cover_a_rule(owned, wanted, missing):
    assert find_uncovered(owned, [wanted]) == missing


def texts(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=4).map(tuple)


RULES = st.builds(
    PolicyRule,
    texts("get", "list", "watch", "*"),
    texts("", "apps", "*"),
    texts("pods", "pods/log", "deployments/scale", "*/scale", "*"),
    texts("a", "b"),
) | st.builds(PolicyRule, texts("get", "post", "*"), paths=texts("/a", "/a/*", "/a/b", "*"))


def is_covered(part: PolicyRule, by: PolicyRule) -> bool:
    """`part` has one of each."""
    if part.verbs[0] not in by.verbs and "*" not in by.verbs:
        return False
    if part.paths:
        return any(
            path == part.paths[0] or (path[-1] == "*" and part.paths[0].startswith(path[:-1])) for path in by.paths
        )
    resource = part.resources[0]
    accepted = {"*", resource} | ({f"*/{resource.partition('/')[2]}"} if "/" in resource else set())
    if not accepted & set(by.resources) or not {"*", part.groups[0]} & set(by.groups):
        return False
    return not by.names or bool(set(part.names) & set(by.names))


@given(st.lists(RULES, max_size=5), st.lists(RULES, max_size=3))
def test_what_is_missing_is_each_part_that_no_rule_covers(owned: list[PolicyRule], wanted: list[PolicyRule]):
    missing = {part for rule in find_uncovered(owned, wanted) for part in split_rule(rule)}

    parts = {part for rule in wanted for part in split_rule(rule)}
    assert missing == {part for part in parts if not any(is_covered(part, mine) for mine in owned)}


def many(kind: str, count: int) -> tuple[str, ...]:
    return tuple(f"{kind}{number}" for number in range(count))


def test_a_rule_with_many_values_is_compared_without_its_parts():
    """It has 27,000,000,000 of them."""
    rule = PolicyRule(many("v", 3_000), many("g", 3_000), many("r", 3_000))
    half = PolicyRule(rule.verbs[1:], rule.groups, rule.resources)

    assert find_uncovered([half, rule], [rule], looks_max=20_000) == []
    assert find_uncovered([half], [rule], looks_max=20_000) == [PolicyRule(("v0",), rule.groups, rule.resources)]
    with pytest.raises(TooManyValues):
        find_uncovered([half] * 3, [rule], looks_max=20_000)


def test_only_the_first_of_many_missing_rules_are_told():
    lines = describe_rules([PolicyRule(many("v", 60), many("g", 3_000), many("r", 3_000))]).splitlines()

    assert len(lines) == 11
    assert lines[0].startswith('{APIGroups:["g0"], Resources:["r0"], Verbs:["v0" "v1" ')
    assert lines[-1] == "and more"
    assert max(map(len, lines)) < 600


def test_missing_rules_are_told_as_kubernetes_tells_them():
    parts = find_uncovered([], [a_rule("get list", "core", "pods secrets"), a_rule("get", paths="/metrics")])

    assert describe_rules(parts) == (
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}'
    )


def test_a_rule_is_shown_as_it_was_read():
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}

    assert parse_rule(rule).as_object() == rule
