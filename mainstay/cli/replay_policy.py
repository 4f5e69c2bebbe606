"""`mainstay replay --policy`: a candidate PlacementPolicy on recorded decisions, read from a file and compared."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from mainstay.cli.cluster_access import MANAGER, Screen
from mainstay.cli.counts import render_count
from mainstay.cli.exits import Exit
from mainstay.cli.explain_output import show_answer
from mainstay.cli.manifests import read_manifests
from mainstay.cli.output import Output
from mainstay.cli.table_text import TableText

if TYPE_CHECKING:
    from mainstay.api.kind import Object
    from mainstay.journal.interface import Journal
    from mainstay.journal.record import DecisionRecord
    from mainstay.scheduler.comparison.comparison import DifferenceExample, PolicyComparison
    from mainstay.scheduler.comparison.forward import ForwardFigures

EXAMPLES_SHOWN: Final = 3
"""Of each difference and reason; -o wide shows all that are kept."""
_NOTED_FROM: Final = 10_000
_STEPS: Final = 10


def read_candidate(path: str, now: datetime) -> "Object":
    """The one PlacementPolicy in a file, validated as the API server does. Raises `click.ClickException`."""
    from mainstay.api.errors import StatusError
    from mainstay.api.kind_names import PLACEMENT_POLICIES
    from mainstay.api.kinds import BUILTIN
    from mainstay.explain.plan.admission import applied

    manifests = read_manifests([path])
    if len(manifests) > 1:
        raise click.ClickException(f"--policy {path}: contains {len(manifests)} objects; keep one PlacementPolicy")
    obj, where = manifests[0].object, manifests[0].where
    kind = next(each for each in BUILTIN if each.reference == PLACEMENT_POLICIES)
    if (obj["apiVersion"], obj["kind"]) != (kind.group_version, kind.kind):
        raise click.ClickException(
            f"--policy {where}: {obj['apiVersion']} {obj['kind']} is not a PlacementPolicy ({kind.group_version})"
        )
    try:
        return applied(kind, obj, None, manager=MANAGER, force=True, now=now)
    except StatusError as error:
        raise click.ClickException(f"--policy {where}: {error}") from None


async def compare_records(
    screen: Screen,
    journal: "Journal",
    records: "Sequence[DecisionRecord]",
    candidate: "Object",
    output: Output,
) -> int:
    """Compare, and print. Returns the exit code. Raises `click.ClickException`, `JournalError`."""
    from mainstay.scheduler.comparison.comparison import compare_policy, find_placements

    placements = find_placements(records)
    if not placements:
        components = ", ".join(sorted({each.component for each in records}))
        raise click.ClickException(
            f"--policy compares decisions of schedulers, and these are of {components}: remove --component"
            if components
            else "no decisions in this time: use a longer --since"
        )
    total = len(placements)
    step = max(total // _STEPS, 1)

    def note_progress(done: int) -> None:
        if total >= _NOTED_FROM and done // step > (done - 1_000) // step:
            screen.note(f"{done} of {total} decisions compared")

    found = await compare_policy(journal, {each.id for each in placements}, candidate, note_progress)
    show_answer(screen, found, output, lambda is_wide: render_comparison(screen, found, is_wide=is_wide))
    if found.integrity.differences:
        return Exit.BLOCKED
    return Exit.SATISFIED if found.integrity.replayed else Exit.INCOMPLETE


def render_comparison(screen: Screen, found: "PolicyComparison", *, is_wide: bool) -> list[str]:
    lines = _render_integrity(found, is_wide)
    if not found.compared:
        return [*lines, "", "No decision could be compared with the candidate."]
    takes = f", which takes the place of {', '.join(found.replaced)}" if found.replaced else ""
    base = "" if found.has_scope else " as the policy of all pods that no scope selects"
    lines += ["", f"Candidate {found.candidate}{base}{takes}", ""]
    if not found.applied:
        return [*lines, _explain_none(found)]
    share = 100 * found.different / found.compared
    lines.append(
        f"Per decision, on the recorded view: {found.different} of {render_count(found.compared, 'decision')} differ"
        f" ({share:.2f} %)"
    )
    rows = [(str(change), reason or "-", found.counts[change, reason]) for change, reason in sorted(found.counts)]
    titles = ("result", "reason", "decisions")
    lines += TableText(titles, is_coloured=screen.is_coloured).lines(rows, with_titles=True)
    examples = [
        (f"{change} {reason}".strip(), each)
        for (change, reason), listed in sorted(found.examples.items())
        for each in (listed if is_wide else listed[:EXAMPLES_SHOWN])
    ]
    if examples:
        lines += ["", "Examples", *(_render_example(words, each) for words, each in examples)]
    if found.forward is not None:
        lines += ["", *_render_forward(screen, found.forward)]
    return lines


def _explain_none(found: "PolicyComparison") -> str:
    """Why the candidate would have decided nothing."""
    kept = sum(found.kept.values())
    if not kept:
        return f"The candidate applies to none of these decisions: none of {found.compared} is in its scope."
    names = " and ".join(f"{name} ({count})" for name, count in sorted(found.kept.items()))
    text = f"The candidate applies to none of these decisions: of {found.compared}, {kept} are in its scope, but"
    return f"{text} more specific policies apply to them: {names}."


def _render_integrity(found: "PolicyComparison", is_wide: bool) -> list[str]:
    summary = found.integrity
    same = sum(summary.same.values())
    whys: dict[str, int] = {}
    for (_, why), count in summary.cannot.items():
        whys[str(why)] = whys.get(str(why), 0) + count
    rest = ", ".join(f"{why} {count}" for why, count in sorted(whys.items()))
    lines = [
        f"Integrity: the recorded policies re-derive {same} of {render_count(summary.replayed, 'decision')}"
        f" ({100 * summary.agreement:.2f} %)" + (f"; {sum(whys.values())} not replayable: {rest}" if whys else "")
    ]
    if summary.differences:
        shown = summary.differences if is_wide else summary.differences[:EXAMPLES_SHOWN]
        lines.append("Do not trust the comparison below: it leaves out these decisions, and should not have to.")
        lines += [
            f"  {record.id}: {each.field}: recorded {each.recorded}, replayed {each.now}" for record, each in shown
        ]
        if len(shown) < len(summary.differences):
            lines.append(f"  and {len(summary.differences) - len(shown)} more; -o wide shows all")
        lines.append("Report it with the bundle; `mainstay replay BUNDLE` shows each difference.")
    return lines


def _render_example(words: str, example: "DifferenceExample") -> str:
    before, after = example.before or "unschedulable", example.after or "unschedulable"
    return f"  {words}: {example.namespace}/{example.pod}: {before} → {after} ({example.decision})"


def _render_share(share: float | None) -> str:
    return "-" if share is None else f"{share:.1f} %"


def _render_forward(screen: Screen, forward: "tuple[ForwardFigures, ForwardFigures]") -> list[str]:
    from mainstay.scheduler.comparison.forward import LEFT_OUT

    recorded, candidate = forward
    rows: list[tuple[str, str, str]] = [
        ("pods placed", str(recorded.placed), str(candidate.placed)),
        ("pending at the end", str(recorded.pending_end), str(candidate.pending_end)),
        ("pending, most", str(recorded.pending_most), str(candidate.pending_most)),
        ("pending, mean", f"{recorded.pending_mean:.1f}", f"{candidate.pending_mean:.1f}"),
    ]
    for name, one in recorded.resources.items():
        other = candidate.resources[name]
        rows += [
            (f"balance {name}, standard deviation", f"{one.deviation:.1f} %", f"{other.deviation:.1f} %"),
            (f"balance {name}, largest - smallest", f"{one.spread:.1f} %", f"{other.spread:.1f} %"),
            (f"fragmentation {name}", _render_share(one.fragmentation), _render_share(other.fragmentation)),
        ]
    table = TableText(("measure", "recorded policies", "candidate"), is_coloured=screen.is_coloured)
    return [
        f"Run forward: both over the same {render_count(recorded.arrived, 'pod')}, each with its own placements",
        *table.lines(rows, with_titles=True),
        "",
        "The model leaves out:",
        *(f"  {each}" for each in LEFT_OUT),
    ]
