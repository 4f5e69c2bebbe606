"""What a failing run gives: its story, the nearest run that passes and where they part, and who was waiting."""

import re
from dataclasses import replace

import msgspec
import pytest

from mainstay.scenarios import SCENARIOS
from mainstay.sim.checkers import Violated
from mainstay.sim.cluster.history import Event, FaultInjected, RequestReceived, RevisionCommitted, WatchDelivered
from mainstay.sim.cluster.world import World
from mainstay.sim.errors import Deadlock
from mainstay.sim.failure.choice_units import Unit
from mainstay.sim.failure.divergence import compare_runs, difference
from mainstay.sim.failure.nearest_pass import find_nearest_pass
from mainstay.sim.failure.report import describe_unit, report_long, report_short
from mainstay.sim.failure.rerun import replay
from mainstay.sim.failure.story import tell_story
from mainstay.sim.failure.subjects import find_key, find_subjects, parse_cause
from mainstay.sim.run.bundle import RunBundle
from mainstay.sim.run.choices import Choice
from mainstay.sim.run.forks import LostFork, report_lost_fork
from mainstay.sim.run.run import run
from mainstay.sim.run.scenario import Stage
from tests.sim.failing_run import LOST, failing_run

pytestmark = pytest.mark.slow

POD = "core/pods/default/web-1"
SET = "apps/replicasets/default/web"


@pytest.fixture(scope="module")
def bundle() -> RunBundle:
    return failing_run()


def asked(request: int, path: str, *, method: str = "PATCH", cause: str = "", body: bytes = b"{}") -> RequestReceived:
    return RequestReceived(request * 10**9, request, "scheduler", "server-1", method, path, "", cause, "", "", body)


def committed(
    revision: int, key: str, value: str | None, previous: str | None = None, request: int = 0
) -> RevisionCommitted:
    return RevisionCommitted(
        revision * 10**9,
        revision,
        key,
        None if value is None else value.encode(),
        None if previous is None else previous.encode(),
        request or None,
    )


def a_pod(uid: str, more: str = "") -> str:
    owners = '"ownerReferences":[{"uid":"s-1","controller":true}]'
    return f'{{"metadata":{{"name":"web-1","namespace":"default","uid":"{uid}",{owners}}}{more}}}'


# The whole


def test_the_long_report_has_all_that_one_asks_for(bundle: RunBundle):
    text = "\n".join(report_long(bundle, "mainstay sim replay it", jobs=2))

    assert "one-delivery seed 1: violated\n  acknowledged writes: operation deliver." in text
    assert "  repeat with: mainstay sim replay it\n" in text
    assert "\ninjected faults:\n" in text
    assert "\nstory of core/secrets/default/delivery-" in text
    assert ": 201, revision " in text
    assert ", RESPONSE LOST\n" in text
    assert (
        "the nearest passing run is the same one without this:\n  a write is committed but its response is lost" in text
    )
    assert "(clerk): fault/answer-lost/clerk, the 5th time\nfirst divergence, after " in text
    assert "  this run " in text
    assert "of clerk is lost\n  passing run " in text
    assert re.search(r"\n  core/secrets/default/delivery-\w+: there \| missing\n", text)
    assert "\nwaiting tasks:\n" in text
    assert " clerk/0: client/dispatch.py:" in text


def test_the_short_report_says_what_was_drawn_what_the_scenario_says_and_where_there_is_more(bundle: RunBundle):
    result = msgspec.structs.replace(bundle.result, told="users: scale often")

    *_, drawn, told, again, kept, its_story, more = report_short(result, "again", "it.run.json")

    assert drawn == f"  setup: {result.drawn}"
    assert told == "  notes: users: scale often"
    assert again == "  repeat with: again"
    assert kept == "  bundle: it.run.json"
    assert its_story == "  story and waiting tasks: mainstay sim replay it.run.json --story"
    assert more == "  more: mainstay sim shrink | diff | serve it.run.json"


def test_a_run_that_was_lost_says_why_it_has_no_bundle():
    result = report_lost_fork(SCENARIOS["one-delivery"], 4, LostFork("ended by signal 9"))

    assert report_short(result, "mainstay sim run one-delivery --seeds 1 --first-seed 4")[1:] == [
        "  the process of the run died: ended by signal 9",
        "  repeat with: mainstay sim run one-delivery --seeds 1 --first-seed 4",
        "  no bundle: the process of the run died, and its choices with it",
    ]


class Telling(Stage):
    """Says what it has drawn, and is never content."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.add_server("server-1")

    async def begin(self) -> None:
        self.told = "users: scale often"

    async def check(self) -> None:
        raise Violated("mood", "it is not happy")


TELLING = replace(SCENARIOS["one-delivery"], name="telling", make=Telling, checkers=list, faults=())


def test_the_long_report_says_what_the_scenario_says():
    text = "\n".join(report_long(RunBundle.of(run(TELLING, 1), scenario=f"{__name__}:TELLING"), "again"))

    assert "\n  notes: users: scale often\n  repeat with: again\n" in text


def test_the_same_run_is_made_again(bundle: RunBundle):
    made = replay(bundle)

    assert made.is_same
    assert (made.result.verdict, made.result.problem) == (bundle.result.verdict, bundle.result.problem)


def test_the_nearest_passing_run_is_without_what_matters(bundle: RunBundle):
    found = find_nearest_pass(bundle, jobs=2)

    assert found is not None
    assert [unit.first for unit in found.taken] == [LOST]


def test_a_run_does_not_differ_from_itself(bundle: RunBundle):
    one, other = compare_runs(bundle, [bundle.the_tape(), bundle.the_tape()])

    assert difference(one, other, ("one", "other")) == []


# Who is concerned


def test_objects_are_those_of_the_events_that_a_checker_shows_and_their_owners():
    made = committed(4, POD, a_pod("u-1"))
    events: list[Event] = [committed(3, SET, '{"metadata":{"name":"web","uid":"s-1"}}'), made]

    error = RuntimeError()
    error.__cause__ = Violated("count", "too many", [made])

    assert find_subjects(events, error, "count: too many") == [POD, SET]


@pytest.mark.parametrize(
    "problem",
    [
        f"placed: {POD} is nowhere",
        "placed: default/web-1 is nowhere",
        "placed: web-1 is nowhere",
        "placed: 11111111-2222-3333-4444-555555555555 is nowhere",
    ],
)
def test_objects_are_found_by_what_a_problem_calls_them(problem: str):
    events = [committed(4, POD, a_pod("11111111-2222-3333-4444-555555555555"))]

    assert find_subjects(events, Deadlock("it waits"), problem) == [POD]


def test_what_a_writer_was_looking_at_is_concerned_as_well_and_told_once():
    made = committed(4, POD, a_pod("u-1"), request=9)
    events: list[Event] = [
        committed(3, SET, '{"metadata":{"name":"web","uid":"s-1"}}'),
        asked(9, "/api/v1/namespaces/default/pods", method="POST", cause="replicasets.apps/default/web@3"),
        made,
    ]

    assert find_subjects(events, Violated("count", "too many", [made]), "") == [POD, SET]


def test_the_object_of_a_request_is_told_from_its_path():
    by_name = b'{"metadata":{"name":"web-1"}}'

    assert find_key(asked(1, "/api/v1/namespaces/default/pods/web-1/status?x=1")) == POD
    assert find_key(asked(1, "/api/v1/namespaces/default/pods", method="POST", body=by_name)) == POD
    assert find_key(asked(1, "/apis/apps/v1/namespaces/default/replicasets/web")) == SET
    assert find_key(asked(1, "/api/v1/nodes/node-1")) == "core/nodes/node-1"
    assert find_key(asked(1, "/healthz")) == ""
    assert parse_cause("nodes/node-1@5") == "core/nodes/node-1"


# The story


def test_a_story_says_who_asked_what_was_lost_and_who_was_told():
    before, after = a_pod("u-1"), a_pod("u-1", ',"spec":{"nodeName":"node-1"}')
    events: list[Event] = [
        FaultInjected(1, "something long ago"),
        asked(20, "/api/v1/namespaces/default/pods/web-1", cause="pods/default/web-1@3"),
        committed(21, POD, after, before, request=20),
        WatchDelivered(22 * 10**9, 3, "node-1", "MODIFIED", POD, 21),
        WatchDelivered(22 * 10**9, 4, "node-2", "MODIFIED", POD, 21),
        WatchDelivered(24 * 10**9, 5, "controller", "MODIFIED", POD, 21),
        FaultInjected(25 * 10**9, "node-1 crashes"),
        committed(26, "core/pods/default/other", a_pod("u-2")),
    ]

    assert tell_story(events, [POD]) == [
        "  20.000000  scheduler → server-1: PATCH /api/v1/namespaces/default/pods/web-1"
        " (#20, because of pods/default/web-1@3): no answer",
        f'  21.000000    revision 21 changes {POD}: spec none → {{"nodeName":"node-1"}}',
        f"  22.000000    node-1, node-2 receive {POD} at 21 (MODIFIED)",
        f"  24.000000    controller receives {POD} at 21 (MODIFIED), 2.0 s after the first",
        "  25.000000  ! fault: node-1 crashes",
    ]


def test_a_long_story_keeps_its_end():
    events = [committed(number, POD, a_pod("u-1", f',"x":{number}'), a_pod("u-1")) for number in range(1, 301)]

    told = tell_story(events, [POD])

    assert len(told) == 121
    assert told[12] == "  … 180 lines omitted …"
    assert "revision 300 " in told[-1]


def test_a_choice_is_said_in_words():
    crash = Unit(
        (
            Choice("fault/crash", 11, 2, 1),
            Choice("fault/crash/who", 0, 3, 2),
            Choice("fault/crash/silently", 0, 2, 0),
            Choice("fault/crash/duration", 0, 7, 5),
        ),
        is_strike=True,
    )

    assert list(describe_unit(crash)) == [
        "a program crashes and restarts after a while: fault/crash, the 12th time",
        "  who: option 2 of 0 to 2",
        "  duration: 20 s",
    ]
    assert list(describe_unit(Unit((Choice("work/what", 2, 5, 3),)))) == ["work/what, the 3rd time: option 3 of 0 to 4"]
