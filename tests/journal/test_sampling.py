"""Which decisions are kept, in which detail, and what the record says about it."""

from typing import Any

import msgspec
import pytest

from mainstay.journal.record import (
    AppliedPolicy,
    DecisionRecord,
    Ending,
    LookedAt,
    Outcome,
    RecordedAction,
    RecordedCondition,
    RecordedMemory,
    SampledRecord,
    Subject,
    WhyNot,
    WriteResult,
)
from mainstay.journal.sampling import (
    CALM,
    DEFAULT_RULES,
    POLICY_WINDOW,
    BadRules,
    DetailLevel,
    EffectiveRules,
    Sampler,
    SamplingMatch,
    SamplingRule,
    kept,
    parse_rules,
    summarised,
)
from tests.journal.builders import AT, a_decision

WINDOW_US = int(POLICY_WINDOW.total_seconds() * 1_000_000)
BIND = RecordedAction("bind", "pods", "default", "web")


def a_noop(number: int = 1, **parts: Any) -> DecisionRecord:
    return a_decision(number=number, **{"outcome": Outcome(Ending.DONE), **parts})


def rule_for(record: DecisionRecord) -> str:
    return str(kept(record, DEFAULT_RULES.rules, CALM))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (a_noop(outcome=Outcome(Ending.RETRY, "Unschedulable")), "failures=full"),
        (a_noop(outcome=Outcome(Ending.GIVE_UP, "Invalid")), "failures=full"),
        (a_noop(outcome=Outcome(Ending.REFUSED, "QuotaExceeded")), "failures=full"),
        (a_noop(writes=(WriteResult("pods", "default", "web", error="Conflict"),)), "failures=full"),
        (a_noop(priority=2_000_000_000), "priority=full"),
        (a_noop(subject=Subject("placementpolicies.mainstay.dev", "", "fair")), "policy-changes=full"),
        (a_noop(is_rolling_out=True), "rollouts=full"),
        (a_noop(), "noops=summary"),
        (a_noop(looked_at=(LookedAt("pods", "default", "web", 5),)), "noops=summary"),
        (a_noop(actions=(BIND,)), "actions=full"),
        (a_noop(outcome=Outcome(Ending.WAKE_AT, "BackingOff", wake_at=AT)), "actions=full"),
        (a_noop(conditions=(RecordedCondition("Ready", "True"),)), "actions=full"),
        (a_noop(outcome=Outcome(Ending.DONE, "GhostsSeen")), "actions=full"),
    ],
)
def test_by_default_all_that_did_or_refused_something_is_kept_in_full(record: DecisionRecord, said: str):
    sampled = Sampler().sampled(record)

    assert sampled is not None
    assert sampled.kept == said
    if said.endswith("full"):
        assert msgspec.structs.replace(sampled, kept="") == record


def test_one_in_a_hundred_of_those_that_did_nothing_is_kept_in_full_and_always_the_same_ones():
    records = [a_noop(number) for number in range(20_000)]
    said = [rule_for(record) for record in records]

    assert {*said} == {"baseline=full", "noops=summary"}
    assert 120 < said.count("baseline=full") < 280
    assert said == [rule_for(record) for record in records]


def test_an_incident_keeps_everything_until_it_is_over():
    sampler = Sampler(EffectiveRules(DEFAULT_RULES.rules, incident_until=AT + 1_000))

    kept_during, kept_after = sampler.sampled(a_noop(at=AT + 999)), sampler.sampled(a_noop(at=AT + 1_000))

    assert kept_during is not None
    assert kept_after is not None
    assert (kept_during.kept, kept_after.kept) == ("incident=full", "noops=summary")


def test_decisions_after_a_component_follows_another_policy_are_part_of_the_change():
    sampler = Sampler()
    before, after = AppliedPolicy("placementpolicies", "p", "u", 10), AppliedPolicy("placementpolicies", "p", "u", 20)

    def rule(at: int, policy: AppliedPolicy, component: str = "scheduler") -> str:
        record = sampler.sampled(a_noop(at=at, policies=(policy,), component=component))
        assert record is not None
        return record.kept

    said = [rule(AT, before), rule(AT + 1, after), rule(AT + WINDOW_US, after), rule(AT + WINDOW_US + 1, after)]

    # What it followed before the first is not known, so that is no change.
    assert said == ["noops=summary", "policy-changes=full", "policy-changes=full", "noops=summary"]
    assert rule(AT + 2, after, "other") == "noops=summary"


def test_decisions_by_two_policies_in_turn_are_no_change_once_both_are_known():
    sampler = Sampler()
    policies = [AppliedPolicy("placementpolicies", name, "u", 10) for name in ("p", "q")]

    kept = []
    for number in range(4):
        record = sampler.sampled(a_noop(at=AT + number * WINDOW_US, policies=(policies[number % 2],)))
        assert record is not None
        kept.append(record.kept)

    assert kept == ["noops=summary", "policy-changes=full", "noops=summary", "noops=summary"]


def test_a_summary_of_a_decision_that_said_nothing_can_still_be_replayed():
    record = a_noop(
        memory=RecordedMemory(3, b"abc"), looked_at=(LookedAt("pods", "default", "web", 5),), woken_by=(1, 2, 3)
    )

    summary = summarised(record)

    assert not summary.why_not
    assert (summary.view, summary.memory, summary.now) == (record.view, record.memory, record.now)
    assert (summary.looked_at, summary.looked_at_count) == ((), 1)
    assert (summary.woken_by, summary.woken_count) == ((3,), 3)


def test_a_summary_that_has_cut_off_what_was_said_cannot_and_says_why():
    record = a_noop(conditions=(RecordedCondition("Ready", "True"),), reasons=("one", "two"))

    summary = summarised(record)

    assert summary.why_not == (WhyNot.SUMMARISED,)
    assert (summary.reasons, summary.conditions) == (("one",), ())


def test_what_is_left_out_is_counted_by_rule_and_component_and_told_once():
    rules = (
        SamplingRule("failures", SamplingMatch(failures=True)),
        SamplingRule("nothing-else", keep=DetailLevel.NOTHING),
    )
    sampler = Sampler(EffectiveRules(rules))

    assert [sampler.sampled(a_noop(number)) for number in range(1, 4)] == [None] * 3
    assert sampler.sampled(a_noop(4, component="scheduler")) is None
    failed = sampler.sampled(a_noop(5, outcome=Outcome(Ending.RETRY, "x")))

    assert failed is not None
    assert failed.kept == "failures=full"
    assert sampler.left_out == 4
    assert sampler.told() == [
        SampledRecord(AT + 1, AT + 3, "nothing-else", "replicasets", 3),
        SampledRecord(AT + 4, AT + 4, "nothing-else", "scheduler", 1),
    ]
    assert sampler.told() == []


def test_a_dry_run_keeps_everything_and_says_what_would_have_been_kept():
    record = a_noop()
    sampled = Sampler(EffectiveRules((SamplingRule("rest", keep=DetailLevel.NOTHING),), dry_run=True)).sampled(record)

    assert sampled == msgspec.structs.replace(record, kept="dry-run rest=nothing")


def test_the_first_rule_that_matches_decides_and_one_in_n_lets_the_others_go_on():
    rules = (
        SamplingRule("team", SamplingMatch(namespaces=("pay",), kinds=("pods", "jobs.batch"))),
        SamplingRule("critical", SamplingMatch(priority_classes=("critical",))),
        SamplingRule("noisy", SamplingMatch(components=("hpa",), reasons=("Steady",)), DetailLevel.NOTHING),
        SamplingRule("some", one_in=4),
        SamplingRule("rest", keep=DetailLevel.SUMMARY),
    )
    steady = Outcome(Ending.DONE, "Steady")

    assert str(kept(a_noop(subject=Subject("pods", "pay", "a")), rules)) == "team=full"
    assert (
        str(kept(a_noop(subject=Subject("secrets", "pay", "a"), priority_class="critical"), rules)) == "critical=full"
    )
    assert str(kept(a_noop(component="hpa", outcome=steady), rules)) == "noisy=nothing"
    said = [str(kept(a_noop(number), rules)) for number in range(4_000)]
    assert {*said} == {"some=full", "rest=summary"}
    assert 800 < said.count("some=full") < 1_200
    assert str(kept(a_noop(), ())) == "otherwise=full"


def test_rules_are_read_from_a_policy():
    spec = {
        "rules": [
            {"name": "failures", "when": {"failures": True}},
            {"name": "high", "when": {"priorityAtLeast": 1000, "priorityClasses": ["high"]}, "oneIn": 2},
            {"name": "rest", "keep": "summary"},
        ],
        "dryRun": True,
        "incident": {"until": "2026-11-16T06:00:00Z", "owner": "ana", "reason": "outage"},
    }

    assert parse_rules(spec, incident_until=7) == EffectiveRules(
        (
            SamplingRule("failures", SamplingMatch(failures=True)),
            SamplingRule("high", SamplingMatch(priority_at_least=1000, priority_classes=("high",)), one_in=2),
            SamplingRule("rest", keep=DetailLevel.SUMMARY),
        ),
        incident_until=7,
        dry_run=True,
    )
    assert parse_rules({}) == DEFAULT_RULES


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([{"name": "a", "when": {"failure": True}}], "unknown field `failure` - at `$.rules[0].when`"),
        ([{"name": "a", "keep": "most"}], "Invalid enum value 'most' - at `$.rules[0].keep`"),
        ([{"when": {}}], "missing required field `name` - at `$.rules[0]`"),
        ([{"name": "a b"}], "$.rules[0].name: 'a b' is not a name"),
        ([{"name": "a"}, {"name": "a"}], "$.rules[1].name: there is another rule 'a'"),
        ([{"name": "a", "oneIn": 0}], "$.rules[0].oneIn: 0 is less than 1"),
        ([{"name": f"r{number}"} for number in range(101)], "there are 101 rules, and at most 100"),
    ],
)
def test_rules_that_make_no_sense_say_which_and_why(rules: list[Any], said: str):
    with pytest.raises(BadRules) as error:
        parse_rules({"rules": rules})
    assert said in str(error.value)
