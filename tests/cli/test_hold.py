"""`mainstay hold` and `mainstay release`: in the name of an owner, for a reason, and for a while."""

from datetime import timedelta
from typing import Any

import click
import msgspec
import pytest

from mainstay.api.holds import HoldScope, in_force, parse_hold
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, HOLDS
from mainstay.cli.exits import Exit
from mainstay.cli.get import get_objects
from mainstay.cli.hold import build_hold, create_hold, find_user_name
from mainstay.cli.hold_target import HoldTarget, list_holds, parse_target, render_holds
from mainstay.cli.main import run
from mainstay.cli.object_selection import GetOptions
from mainstay.cli.output import Output, OutputFormat
from mainstay.cli.release import parse_hold_name, release_all
from mainstay.client.config import from_kubeconfig
from mainstay.client.errors import Invalid, NotFound
from tests.cli.paper import Paper
from tests.client.world import World, a_world
from tests.controllers.objects import NOON, a_hold
from tests.server.world import a_deployment

HOUR = timedelta(hours=1)
ROLLOUTS = HoldTarget(HoldScope.CONTROLLER, "deployment")
SHOWN = "hold.mainstay.dev/controller.deployment"


async def held(
    world: World,
    target: HoldTarget = ROLLOUTS,
    *,
    owner: str = "anna",
    name: str = "",
    length: timedelta = HOUR,
    **more: Any,
) -> Paper:
    paper, now = Paper(), world.sim.clock.wall()
    wish = build_hold(target, name, owner, "orders get lost", now, length)
    assert await create_hold(world.client, paper, wish, now, more.pop("output", Output()), **more) == Exit.SATISFIED
    return paper


async def released(world: World, *names: str) -> tuple[int, Paper]:
    paper = Paper()
    return await release_all(world.client, paper, names, world.sim.clock.wall()), paper


# What is meant.


@pytest.mark.parametrize(
    ("word", "said", "meant", "name"),
    [
        ("controller/node-health", "", HoldTarget(HoldScope.CONTROLLER, "node-health"), "controller.node-health"),
        ("evictions", "", HoldTarget(HoldScope.EVICTIONS), "evictions"),
        ("evictions", "shop", HoldTarget(HoldScope.EVICTIONS, "", "shop"), "evictions.shop"),
        ("rollout/deploy/web", "", HoldTarget(HoldScope.ROLLOUT, "web", "default"), "rollout.default.web"),
        ("rollout/deployment.apps/web", "shop", HoldTarget(HoldScope.ROLLOUT, "web", "shop"), "rollout.shop.web"),
        ("rollout/web", "", HoldTarget(HoldScope.ROLLOUT, "web", "default"), "rollout.default.web"),
    ],
)
def test_what_is_held_is_named_as_people_name_it(word, said, meant, name):
    assert parse_target(word, said, "default") == meant
    assert meant.hold_name == parse_hold_name(word, said, "default") == name


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("deploy/web", "WHAT must be controller/NAME, evictions or rollout/deploy/NAME"),
        ("controller", "WHAT must be controller/NAME"),
        ("controller/a/b", "WHAT must be controller/NAME"),
        ("evictions/web", "WHAT must be controller/NAME"),
        ("rollout/job/web", "a rollout must be of a Deployment, not 'job'"),
        ("rollout/deploy/", "WHAT must be controller/NAME"),
    ],
)
def test_what_cannot_be_held_is_said_with_what_can(word, problem):
    with pytest.raises(click.UsageError, match=problem):
        parse_target(word, "", "default")


def test_a_controller_has_no_namespace():
    with pytest.raises(click.UsageError, match="remove -n"):
        parse_target("controller/job", "shop", "default")


def test_the_name_of_a_hold_is_taken_as_it_is():
    assert [parse_hold_name(word, "", "default") for word in ("mine", "evictions", "hold/mine")] == [
        "mine",
        "evictions",
        "mine",
    ]


def test_the_holder_is_the_user_unless_another_is_named():
    assert find_user_name("admin", {"USER": "anna", "LOGNAME": "root"}, lambda: "root") == "anna"
    assert find_user_name("admin", {}, lambda: "root") == "root"
    assert find_user_name("admin", {}, lambda: "") == "admin"
    with pytest.raises(click.UsageError, match="--owner"):
        find_user_name("", {}, lambda: "")


def test_the_user_of_a_kubeconfig_is_known_by_its_name(tmp_path):
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "kubernetes-admin"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "kubernetes-admin", "user": {"token": "t"}}],
    }
    assert from_kubeconfig(msgspec.json.encode(kubeconfig).decode(), tmp_path).user == "kubernetes-admin"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["hold", "evictions"], Exit.USAGE),
        (["hold", "evictions", "--reason", "x", "--for", "8d"], Exit.USAGE),
        (["hold", "evictions", "--reason", "x", "--for", "0s"], Exit.USAGE),
        (["hold", "evictions", "--reason", "x", "--for", "soon"], Exit.USAGE),
        (["release"], Exit.USAGE),
        (["hold", "--help"], Exit.SATISFIED),
    ],
)
def test_wrong_words_are_a_matter_of_usage(arguments, code):
    assert run(arguments) == code


# Holding.


async def test_a_hold_is_made_and_it_is_said_what_that_means(sim):
    async with a_world(sim) as world:
        paper = await held(world)

        assert paper.lines == [f"{SHOWN} created"]
        assert paper.notes == [
            "Controller deployment is paused until 2026-01-01T01:00:00Z. It catches up afterwards.\n"
            "To end it earlier: mainstay release controller.deployment"
        ]
        assert (await world.client.get(HOLDS, "controller.deployment"))["spec"] == {
            "what": "Controller",
            "target": {"name": "deployment"},
            "owner": "anna",
            "reason": "orders get lost",
            "expiresAt": "2026-01-01T01:00:00Z",
        }


async def test_each_kind_of_hold_can_be_made_and_get_shows_them(sim):
    async with a_world(sim) as world:
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        notes = [
            (await held(world, target)).notes[0].splitlines()[0]
            for target in (
                HoldTarget(HoldScope.EVICTIONS),
                HoldTarget(HoldScope.EVICTIONS, "", "default"),
                HoldTarget(HoldScope.ROLLOUT, "web", "default"),
            )
        ]
        paper = Paper()
        await get_objects(world.client, paper, ["holds"], GetOptions())

    until = "2026-01-01T01:00:01Z"  # Rounded up to whole seconds.
    assert notes == [
        f"Evictions are paused until {until}, by request and because of node failures.",
        f"Evictions in namespace default are paused until {until}, by request and because of node failures.",
        f"The rollout of default/web is paused until {until}. Scaling still works.",
    ]
    assert [" ".join(words[:6]) for words in paper.words[1:]] == [
        "evictions Evictions every namespace anna 60m",
        "evictions.default Evictions default anna 60m orders",
        "rollout.default.web Rollout default/web anna 60m orders",
    ]


async def test_what_is_not_there_is_not_held_and_what_was_meant_is_said(sim):
    async with a_world(sim) as world:
        with pytest.raises(
            click.ClickException, match=r"controller 'deploymnt' not found; did you mean deployment"
        ) as error:
            await held(world, HoldTarget(HoldScope.CONTROLLER, "deploymnt"))
        assert "scheduler" in str(error.value)
        with pytest.raises(NotFound, match=r'deployments\.apps "web" not found'):
            await held(world, HoldTarget(HoldScope.ROLLOUT, "web", "default"))
        with pytest.raises(NotFound, match='namespaces "shop" not found'):
            await held(world, HoldTarget(HoldScope.EVICTIONS, "", "shop"))
        assert (await world.client.list(HOLDS)).items == []


async def test_a_controller_of_ones_own_can_be_held_when_a_component_says_that_it_runs_it(sim):
    async with a_world(sim) as world:
        await world.client.create(COMPONENT_STATES, {"metadata": {"name": "mine"}, "spec": {"component": "mine"}})
        body = {"status": {"controllers": ["websites"]}}
        await world.client.patch(COMPONENT_STATES, "mine", "", body, subresource="status")

        paper = await held(world, HoldTarget(HoldScope.CONTROLLER, "websites"))

    assert paper.lines == ["hold.mainstay.dev/controller.websites created"]


async def test_what_one_holds_oneself_is_held_for_longer_or_shorter(sim):
    async with a_world(sim) as world:
        await held(world)
        paper = await held(world, length=timedelta(days=2))

        assert paper.lines == [f"{SHOWN} changed"]
        hold = await world.client.get(HOLDS, "controller.deployment")
        assert (hold["spec"]["expiresAt"], hold["metadata"]["generation"]) == ("2026-01-03T00:00:01Z", 2)


async def test_a_hold_of_another_user_is_not_taken_over_until_it_expires(sim):
    async with a_world(sim) as world:
        await held(world)
        with pytest.raises(click.ClickException) as error:
            await held(world, owner="ben")
        assert error.value.message.splitlines() == [
            "Hold controller.deployment is already active: anna holds it until 2026-01-01T01:00:00Z: orders get lost",
            "Ask anna, end it with `mainstay release controller.deployment`, or add a second one with --name.",
        ]
        await held(world, owner="ben", name="bens")
        with pytest.raises(click.ClickException, match="Hold bens exists for Controller deployment"):
            await held(world, HoldTarget(HoldScope.CONTROLLER, "job"), name="bens")
        sim.clock.jump(HOUR)
        world.sim.get_clock("server").jump(HOUR)

        await held(world, owner="ben")

        found = parse_hold(await world.client.get(HOLDS, "controller.deployment"))
        assert found is not None
        assert found.owner == "ben"


async def test_the_object_can_be_had_and_a_dry_run_holds_nothing(sim):
    async with a_world(sim) as world:
        dry = await held(world, is_dry=True)
        assert (dry.lines, dry.notes) == ([f"{SHOWN} created (server dry run)"], [])
        assert (await world.client.list(HOLDS)).items == []

        paper = await held(world, output=Output(OutputFormat.JSON))

        shown = msgspec.json.decode(paper.written)
        assert (shown["kind"], shown["spec"]["owner"], paper.notes) == ("Hold", "anna", [])


async def test_the_server_has_the_last_word_on_how_long(sim):
    async with a_world(sim) as world:
        with pytest.raises(Invalid, match="a Hold lasts at most 7 days"):
            await held(world, length=timedelta(days=30))


# Letting go.


async def test_what_is_released_is_said_with_whose_it_was(sim):
    async with a_world(sim) as world:
        await held(world)

        code, paper = await released(world, "controller.deployment")

        assert code == Exit.SATISFIED
        assert paper.lines == [f"{SHOWN} released (anna: orders get lost; until 2026-01-01T01:00:00Z)"]
        assert (await world.client.list(HOLDS)).items == []


async def test_what_is_not_held_cannot_be_released_and_what_is_is_said(sim):
    async with a_world(sim) as world:
        assert (await released(world, "mine"))[1].notes == ["mainstay: Hold 'mine' not found: there are none"]
        await held(world)

        code, paper = await released(world, "mine", "controller.deployment")

    assert code == Exit.ERROR
    assert paper.notes == ["mainstay: Hold 'mine' not found: existing are controller.deployment"]
    assert len(paper.lines) == 1


# What is held, in `mainstay status`.


async def test_status_shows_what_is_held_and_nothing_of_what_is_over(sim):
    async with a_world(sim) as world:
        await held(world)
        await held(world, HoldTarget(HoldScope.EVICTIONS), owner="ben", length=3 * HOUR)
        now = sim.clock.wall() + timedelta(minutes=61)

        assert [each.name for each in await list_holds(world.client, sim.clock.wall())] == [
            "evictions",
            "controller.deployment",
        ]
        assert [each.name for each in await list_holds(world.client, now)] == ["evictions"]


def test_what_is_held_stands_in_columns():
    holds = in_force(
        [
            a_hold(HoldScope.CONTROLLER, {"name": "deployment"}, name="a"),
            a_hold(HoldScope.EVICTIONS, name="b", ends=7200, owner="benjamin"),
            a_hold(HoldScope.ROLLOUT, {"namespace": "shop", "name": "web"}, name="c", ends=90, reason="errors at 5 %"),
        ],
        NOON,
    )

    assert render_holds(holds, NOON) == [
        "",
        "HOLD                   OWNER     LEFT  REASON",
        "evictions everywhere   benjamin  120m  a look",
        "controller deployment  anna      60m   a look",
        "rollout shop/web       anna      90s   errors at 5 %",
    ]
    assert render_holds([], NOON) == []
