"""Which decisions are kept, and in which detail: rules, tried in order; the first that matches decides.

    Rule("failures", When(failures=True))                        whatever went wrong: in full
    Rule("noops", When(noops=True), Keep.SUMMARY)                nothing to do and nothing to say: its summary
    Rule("sample", When(components=("hpa",)), one_in=100)        one in a hundred; the others go on to the next rule
    Rule("rest", keep=Keep.NOTHING)

What no rule matches is kept in full. Each record that is kept says by which rule, as in `failures=full`; what is left
out is counted, and a `SampledRecord` tells how many of which component by which rule, so that readers do not take
silence for rest. One in N is drawn from the decision's id: the same decision is always drawn the same way, by every
server, however often it is sent.

`kept` is a plain function. `Sampler` keeps what it has to know from one record to the next: which policies each
component follows, and since when, and what was left out.

A summary has all that a decision depended on and led to, without what it looked at, its conditions and its second
reason; one of a decision that had none of these can still be replayed. The scheduler's memory is the fold of its own
records: a rule that leaves out some of them makes its later decisions impossible to replay. The default rules do not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final
from zlib import crc32

import msgspec

from mainstay.journal.errors import JournalError
from mainstay.journal.record import AppliedPolicy, DecisionRecord, Ending, SampledRecord, WhyNot

POLICY_KINDS: Final = frozenset(
    {
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "placementpolicies.mainstay.dev",
        "policyrollouts.mainstay.dev",
        "samplingpolicies.mainstay.dev",
    }
)
POLICY_WINDOW: Final = timedelta(minutes=10)
"""For so long after a component began to follow another policy its decisions count as part of the change."""
PRIORITY_HIGH: Final = 1_000_000
"""From here on a pod's decisions are always kept in full by the default rules."""
COMPONENTS_MAX: Final = 10_000  # Whose policies are remembered.
POLICIES_MAX: Final = 1_000  # Of one component.
RULES_MAX: Final = 100

_FAILURES: Final = frozenset({Ending.RETRY, Ending.GIVE_UP, Ending.REFUSED})
_WINDOW_US: Final = POLICY_WINDOW // timedelta(microseconds=1)


class BadRules(JournalError):
    """These rules make no sense. Says which, and what is wrong with it."""


class DetailLevel(StrEnum):
    """How much of a decision is kept. On records and in policies: only add."""

    FULL = "full"
    SUMMARY = "summary"
    NOTHING = "nothing"


class SamplingMatch(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What a rule matches. All fields that are set must match; with none set, it matches every decision."""

    failures: bool = False
    """It is tried again, given up or refused, or a write of it failed."""
    noops: bool = False
    """There was nothing to do and nothing to say."""
    rollouts: bool = False
    """Its subject was on its way from one generation to the next."""
    policy_changes: bool = False
    """It is about a policy, or its component began to follow another one a moment ago."""
    incidents: bool = False
    """An incident was declared, and is not over."""
    priority_at_least: int | None = None
    priority_classes: tuple[str, ...] = ()
    """Any of them; the same for those below."""
    kinds: tuple[str, ...] = ()
    """Of the subject, as in `deployments.apps`."""
    namespaces: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    """Of the outcome."""


class SamplingRule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    name: str
    when: SamplingMatch = SamplingMatch()
    keep: DetailLevel = DetailLevel.FULL
    one_in: int = 1
    """Of so many that match, it is for one. The others go on to the next rule."""


@dataclass(frozen=True, slots=True)
class EffectiveRules:
    """What is in force."""

    rules: tuple[SamplingRule, ...]
    incident_until: int = 0
    """In microseconds; 0: there is no incident."""
    dry_run: bool = False
    """Keep everything in full, and only say on each record what the rules would have kept."""


DEFAULT_RULES: Final = EffectiveRules(
    (
        SamplingRule("failures", SamplingMatch(failures=True)),
        SamplingRule("priority", SamplingMatch(priority_at_least=PRIORITY_HIGH)),
        SamplingRule("policy-changes", SamplingMatch(policy_changes=True)),
        SamplingRule("rollouts", SamplingMatch(rollouts=True)),
        SamplingRule("incident", SamplingMatch(incidents=True)),
        SamplingRule("baseline", SamplingMatch(noops=True), one_in=100),
        SamplingRule("noops", SamplingMatch(noops=True), DetailLevel.SUMMARY),
        SamplingRule("actions"),
    )
)
"""All that did something, or was refused, in full; of the rest one in a hundred in full, the others in summary."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a rule can be about that is not in the record."""

    is_policy_change: bool = False
    is_incident: bool = False


CALM: Final = Circumstances()
_POLICY_CHANGE: Final = Circumstances(is_policy_change=True)


@dataclass(frozen=True, slots=True)
class SamplingVerdict:
    """What was decided about a record, and by which rule."""

    rule: str
    keep: DetailLevel
    text: str = field(init=False)
    """As it is on the record."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.rule}={self.keep}")

    def __str__(self) -> str:
        return self.text


OTHERWISE: Final = SamplingVerdict("otherwise", DetailLevel.FULL)
"""Of what no rule is about."""


def kept(record: DecisionRecord, rules: Sequence[SamplingRule], circumstances: Circumstances = CALM) -> SamplingVerdict:
    """Which rule is for a decision, and how much of it is to be kept."""
    return _chosen(record, _compiled(tuple(rules)), circumstances)


def _chosen(record: DecisionRecord, compiled: "_Compiled", circumstances: Circumstances) -> SamplingVerdict:
    for tests, one_in, chosen in compiled:
        for test in tests:
            if not test(record, circumstances):
                break
        else:
            if one_in <= 1 or _is_drawn(record.id, one_in):
                return chosen
    return OTHERWISE


def is_failure(record: DecisionRecord) -> bool:
    if record.outcome.ending in _FAILURES:
        return True
    for write in record.writes:  # noqa: SIM110  A generator would cost more than all the rest.
        if write.error:
            return True
    return False


def is_noop(record: DecisionRecord) -> bool:
    """Whether there was nothing to do and nothing to say."""
    outcome = record.outcome
    return (
        outcome.ending is Ending.DONE
        and not (outcome.reason or outcome.message)
        and not (record.actions or record.writes or record.reasons or record.conditions)
    )


def summarised(record: DecisionRecord) -> DecisionRecord:
    """What it was about, depended on and led to, without what it looked at and all that it said."""
    is_cut = bool(record.conditions) or len(record.reasons) > 1
    return msgspec.structs.replace(
        record,
        woken_by=record.woken_by[-1:],
        woken_count=max(record.woken_count, len(record.woken_by)),
        looked_at=(),
        looked_at_count=max(record.looked_at_count, len(record.looked_at)),
        reasons=record.reasons[:1],
        conditions=(),
        why_not=tuple(dict.fromkeys((*record.why_not, WhyNot.SUMMARISED))) if is_cut else record.why_not,
    )


class _Spec(msgspec.Struct, rename="camel"):
    rules: list[SamplingRule] = []
    dry_run: bool = False


def parse_rules(spec: Mapping[str, Any], incident_until: int = 0) -> EffectiveRules:
    """The rules in the `spec` of a SamplingPolicy. Raises `BadRules`.

        {"rules": [{"name": "noops", "when": {"noops": true}, "keep": "summary", "oneIn": 1}], "dryRun": false}

    Without any rules it is the default ones. Until when an incident lasts is for the caller to read.
    """
    try:
        found = msgspec.convert({name: spec[name] for name in ("rules", "dryRun") if name in spec}, _Spec)
    except msgspec.ValidationError as error:
        raise BadRules(str(error)) from None
    if len(found.rules) > RULES_MAX:
        raise BadRules(f"there are {len(found.rules)} rules, and at most {RULES_MAX} are allowed")
    names: set[str] = set()
    for number, rule in enumerate(found.rules):
        where = f"$.rules[{number}]"
        if not rule.name or len(rule.name) > 63 or not rule.name.replace("-", "a").isalnum():
            raise BadRules(f"{where}.name: {rule.name!r} is not a name of letters, digits and hyphens, up to 63")
        if rule.name in names:
            raise BadRules(f"{where}.name: there is another rule {rule.name!r}")
        if rule.one_in < 1:
            raise BadRules(f"{where}.oneIn: {rule.one_in} is less than 1")
        names.add(rule.name)
    return EffectiveRules(tuple(found.rules) or DEFAULT_RULES.rules, incident_until, found.dry_run)


@dataclass(slots=True)
class _Followed:
    """The policies that a component follows, by kind and name, and when one of them last became another, if that was
    seen. Several may apply to different objects at a time."""

    policies: dict[tuple[str, str], AppliedPolicy]
    since: int | None = None


class Sampler:
    """Applies rules to the decisions of many components, one after the other. `rules` may be changed at any time."""

    def __init__(self, rules: EffectiveRules = DEFAULT_RULES) -> None:
        self.rules = rules
        self._compiled: tuple[EffectiveRules, _Compiled] | None = None
        """For which rules, so that rules may be changed at any time."""
        self.left_out = 0
        self.summarised = 0
        self._followed: dict[str, _Followed] = {}
        self._untold: dict[tuple[str, str], SampledRecord] = {}

    def sampled(self, record: DecisionRecord) -> DecisionRecord | None:
        """The record as it is to be kept, with the rule on it. None: it is left out, and counted."""
        rules = self.rules
        if self._compiled is None or self._compiled[0] is not rules:
            self._compiled = rules, _compiled(rules.rules)
        circumstances = _POLICY_CHANGE if self._is_policy_change(record) else CALM
        if record.at < rules.incident_until:
            circumstances = Circumstances(circumstances.is_policy_change, is_incident=True)
        chosen = _chosen(record, self._compiled[1], circumstances)
        if rules.dry_run:
            return msgspec.structs.replace(record, kept=f"dry-run {chosen}")
        match chosen.keep:
            case DetailLevel.FULL:
                return msgspec.structs.replace(record, kept=chosen.text)
            case DetailLevel.SUMMARY:
                self.summarised += 1
                return msgspec.structs.replace(summarised(record), kept=chosen.text)
            case DetailLevel.NOTHING:
                self._leave_out(record, chosen.rule)
                return None

    def marked(self, record: DecisionRecord) -> DecisionRecord:
        """The record with the rule on it if it is to be kept in full, otherwise as it is.

        For a component that has made it. The collector need not decide again if its rules are the same; and
        if they are not, nothing is missing.
        """
        rules = self.rules
        if self._compiled is None or self._compiled[0] is not rules:
            self._compiled = rules, _compiled(rules.rules)
        chosen = _chosen(record, self._compiled[1], _POLICY_CHANGE if self._is_policy_change(record) else CALM)
        return msgspec.structs.replace(record, kept=chosen.text) if chosen.keep is DetailLevel.FULL else record

    def told(self) -> list[SampledRecord]:
        """What was left out since this was asked last. To be written down beside the records."""
        told, self._untold = list(self._untold.values()), {}
        return told

    def _leave_out(self, record: DecisionRecord, rule: str) -> None:
        self.left_out += 1
        place, at = (rule, record.component), record.at
        before = self._untold.get(place, SampledRecord(at, at, rule, record.component, 0))
        self._untold[place] = SampledRecord(
            min(before.since, at), max(before.until, at), rule, record.component, before.records + 1
        )

    def _is_policy_change(self, record: DecisionRecord) -> bool:
        if record.subject.kind in POLICY_KINDS:
            return True
        followed = self._followed.get(record.component)
        if followed is None:
            if not record.policies:
                return False
            if len(self._followed) >= COMPONENTS_MAX:
                self._followed.pop(next(iter(self._followed)))
            # What it followed before is not known: this need not be a change.
            self._followed[record.component] = _Followed({(each.kind, each.name): each for each in record.policies})
            return False
        for each in record.policies:
            if followed.policies.get((each.kind, each.name)) != each:
                if len(followed.policies) >= POLICIES_MAX:
                    followed.policies.clear()
                followed.policies[each.kind, each.name] = each
                followed.since = record.at
        return followed.since is not None and 0 <= record.at - followed.since < _WINDOW_US


_Test = Callable[[DecisionRecord, Circumstances], bool]


@lru_cache(maxsize=64)
def _tests(when: SamplingMatch) -> tuple[_Test, ...]:
    """The conditions of a rule. Only fields that are set are looked at: this runs for every decision of a cluster."""
    tests: list[_Test] = []
    if when.failures:
        tests.append(lambda record, _: is_failure(record))
    if when.noops:
        tests.append(lambda record, _: not record.actions and is_noop(record))
    if when.rollouts:
        tests.append(lambda record, _: record.is_rolling_out)
    if when.policy_changes:
        tests.append(lambda _, circumstances: circumstances.is_policy_change)
    if when.incidents:
        tests.append(lambda _, circumstances: circumstances.is_incident)
    if (least := when.priority_at_least) is not None:
        tests.append(lambda record, _: record.priority >= least)
    if when.priority_classes:
        tests.append(lambda record, _: record.priority_class in when.priority_classes)
    if when.kinds:
        tests.append(lambda record, _: record.subject.kind in when.kinds)
    if when.namespaces:
        tests.append(lambda record, _: record.subject.namespace in when.namespaces)
    if when.components:
        tests.append(lambda record, _: record.component in when.components)
    if when.reasons:
        tests.append(lambda record, _: record.outcome.reason in when.reasons)
    return tuple(tests)


_Compiled = tuple[tuple[tuple[_Test, ...], int, SamplingVerdict], ...]


@lru_cache(maxsize=8)
def _compiled(rules: tuple[SamplingRule, ...]) -> _Compiled:
    return tuple((_tests(rule.when), rule.one_in, SamplingVerdict(rule.name, rule.keep)) for rule in rules)


def _is_drawn(decision: str, one_in: int) -> bool:
    return crc32(decision.encode()) % one_in == 0
