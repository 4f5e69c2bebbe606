"""An answer in words, for people: the cause in one sentence, then the way to it, in at most twelve lines.

    Pod default/web has no node: ZoneQuota default/team-eu has 0 of 1 cpu left in zone eu, and it requests 1.
    ZoneQuotaExceeded (quota), waiting since 00:00:09 (31 s)

      created   by replicaset (3 missing)                                            replicaset-1c2f…  @51
      queue     4 attempts, the last 2 s ago after 1 ms in the queue
      view      scheduler-1 had seen: pods 88, nodes 80, zonequotas 34               scheduler-1-8a…
    ✗ filters   0/1 nodes: 1 zone quota eu/cpu exceeded, 1 requested, at most 0 free  scheduler-1-8a…

    try         raise ZoneQuota default/team-eu to cpu 2: then node-a can take it  (verified)

`-o wide` adds every node, all users and components involved, and the evidence for each line.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from mainstay.explain.why.answer import AnswerSource, ChainLink, LinkState, Verdict, WhyAnswer
from mainstay.explain.why.causes import Tier
from mainstay.explain.why.found import ago, clock, listed, shortened

LINES_MAX: Final = 12
WIDTH: Final = 118
_LABEL: Final = 11
_MARKS: Final = {
    LinkState.DONE: " ",
    LinkState.BROKEN: "✗",
    LinkState.WAITING: "…",
    LinkState.UNKNOWN: "?",
    LinkState.NOT_REACHED: " ",
}


def render_answer(answer: WhyAnswer, *, wide: bool = False) -> str:
    """All that is printed, without a line end after it."""
    return "\n".join(_wide(answer) if wide else _short(answer))


def _short(answer: WhyAnswer) -> list[str]:
    head = _head(answer)
    tail = _tail(answer)
    room = LINES_MAX - len(head) - len(tail) - 1 - bool(tail)
    chain = _chain(answer.chain, max(room, 1))
    lines = [*head, "", *chain]
    return [*lines, "", *tail] if tail else lines


def _head(answer: WhyAnswer) -> list[str]:
    return [answer.sentence, _status(answer)]


def _status(answer: WhyAnswer) -> str:
    since = ""
    if answer.since is not None and answer.verdict is not Verdict.SATISFIED:
        since = f" since {clock(answer.since)} ({ago(answer.since, answer.at)})"
    about = f", about {answer.about.words}" if answer.about is not None else ""
    if answer.tier is Tier.SATISFIED:
        return str(answer.cause)
    return f"{answer.cause} ({answer.tier}), {answer.verdict}{since}{about}"


def _chain(links: Sequence[ChainLink], most: int) -> list[str]:
    """The links, at most so many lines: those in the middle are left out first."""
    shown = list(links)
    if len(shown) > most:
        keep_last = max(most - 2, 1)
        left_out = len(shown) - keep_last - 1
        head = [_line(shown[0])] if most > 2 else []
        return [
            *head,
            f"  …{'':<{_LABEL - 1}}{left_out} more (-o wide)",
            *(_line(each) for each in shown[-keep_last:]),
        ][-max(most, 1) :]
    return [_line(each) for each in shown]


def _line(link: ChainLink) -> str:
    evidence = _evidence(link.evidence)
    room = WIDTH - _LABEL - 2 - (len(evidence) + 2 if evidence else 0)
    text = shortened(link.text, max(room, 40))
    line = f"{_MARKS[link.state]} {link.step:<{_LABEL}}{text}"
    return f"{line}  {'':<{max(0, room - len(text))}}{evidence}".rstrip() if evidence else line


def _evidence(found: Sequence[AnswerSource]) -> str:
    if not found:
        return ""
    each = found[0]
    name = short_decision(each.decision) or each.source
    at = clock(each.at)
    revision = f"@{each.revision}" if each.revision and not each.decision else ""
    return "  ".join(part for part in (name, revision, at) if part)


def short_decision(decision: str) -> str:
    """Enough of a decision's id to know it by."""
    return decision if len(decision) <= 30 else f"{decision[:24]}…{decision[-4:]}"


def _tail(answer: WhyAnswer) -> list[str]:
    lines = []
    decisive = [each for each in answer.staleness if each.is_decisive]
    late = decisive or [each for each in answer.staleness if each.behind_ms >= 1000]
    if late:
        worst = max(late, key=lambda each: each.behind_ms)
        kind = worst.kind.partition(".")[0]
        lines.append(_field("stale", f"{kind}: seen {worst.seen}, latest {worst.latest}{_behind(worst.behind_ms)}"))
    if answer.cures:
        cure = answer.cures[0]
        lines.append(_field("try", _cure(cure.text, cure.verified)))
        if cure.command:
            lines.append(_field("", cure.command))
    elif answer.advice and answer.verdict is not Verdict.SATISFIED:
        lines.append(_field("try", answer.advice))
    if answer.also:
        each = answer.also[0]
        more = f" (and {len(answer.also) - 1} more causes)" if len(answer.also) > 1 else ""
        lines.append(_field("also", shortened(f"{each.cause} ×{each.count}: {each.text}{more}", WIDTH - _LABEL)))
    if answer.gaps:
        more = f" (and {len(answer.gaps) - 1} more)" if len(answer.gaps) > 1 else ""
        lines.append(_field("missing", shortened(f"{answer.gaps[0]}{more}", WIDTH - _LABEL)))
    return lines


def _behind(milliseconds: int) -> str:
    if not milliseconds:
        return ""
    return f", {milliseconds} ms behind" if milliseconds < 10_000 else f", {milliseconds / 1000:.0f} s behind"


def _cure(text: str, verified: bool) -> str:
    return f"{text}{'  (verified)' if verified else ''}"


def _field(name: str, text: str) -> str:
    return f"{name:<{_LABEL + 2}}{text}".rstrip()


# All of it.


def _wide(answer: WhyAnswer) -> list[str]:
    lines = [*_head(answer), f"as of revision {answer.revision}, {_time(answer.at)}", ""]
    for link in answer.chain:
        lines.append(f"{_MARKS[link.state]} {link.step:<{_LABEL}}{link.text}")
        if link.object is not None:
            lines.append(f"  {'':<{_LABEL}}{link.object.words}")
        lines += [f"  {'':<{_LABEL}}└ {_full(each)}" for each in link.evidence]
    if answer.each_node:
        lines += ["", *_nodes(answer)]
    elif answer.nodes:
        lines += ["", *(f"  {each.count} {each.text}: {listed(each.nodes, 8)}" for each in answer.nodes)]
    if answer.staleness:
        lines += ["", f"{'KIND':<32}{'SEEN':<10}{'LATEST':<10}BEHIND"]
        for stale in answer.staleness:
            note = "  decisive" if stale.is_decisive else ""
            lines.append(f"{stale.kind:<32}{stale.seen:<10}{stale.latest:<10}{stale.behind_ms} ms{note}")
    lines += _section("try", [_cure_full(each.text, each.verified, each.command) for each in answer.cures])
    if answer.advice and not answer.cures and answer.verdict is not Verdict.SATISFIED:
        lines += _section("try", [answer.advice])
    lines += _section(
        "involved", [f"{each.who}: {each.text}" + _in_brackets(each.evidence) for each in answer.involved]
    )
    lines += _section("also", [f"{each.cause} ×{each.count}: {each.text}" for each in answer.also])
    lines += _section("notes", answer.notes)
    lines += _section("missing", answer.gaps)
    return lines


def _nodes(answer: WhyAnswer) -> Iterable[str]:
    width = max(len("NODE"), *(len(each.node) for each in answer.each_node)) + 2
    zones = max(len("ZONE"), *(len(each.zone) for each in answer.each_node)) + 2
    yield f"{'NODE':<{width}}{'ZONE':<{zones}}REASON"
    for each in answer.each_node:
        yield f"{each.node:<{width}}{each.zone:<{zones}}{'; '.join(each.reasons) or 'fits'}"


def _section(name: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    return ["", *(_field(name if not number else "", text) for number, text in enumerate(texts))]


def _cure_full(text: str, verified: bool, command: str) -> str:
    return _cure(text, verified) + (f"\n{'':<{_LABEL + 2}}{command}" if command else "")


def _full(each: AnswerSource) -> str:
    parts = [each.decision, each.source, f"@{each.revision}" if each.revision else "", _time(each.at)]
    who = f"by {each.who or each.component}" if each.who or each.component else ""
    return "  ".join(part for part in (*parts, who) if part)


def _in_brackets(found: Sequence[AnswerSource]) -> str:
    return f"  [{_full(found[0])}]" if found else ""


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
