"""The source keeps its rules, and the checker that says so sees what it should see."""

from pathlib import Path

import pytest

from tests import tidy_tree
from tests.tidy import Finding, check_source, check_tree
from tests.tidy_rules import ALLOWED_IMPORTS, FAN_OUT_MAX, LINES_MAX, PARAMETERS_MAX, Rule
from tests.tidy_tree import Tree, check_house
from tests.tidy_words import Place, check_words, find_uses

ROOT = Path(__file__).parent.parent


def rules_broken(source: str, *, path: str = "mainstay/store/planted.py") -> list[Rule]:
    """The rules a module with this source breaks, each once, leaving aside that it has no docstring."""
    found = [finding.rule for finding in check_source(path, source)]
    return [rule for rule in dict.fromkeys(found) if rule is not Rule.DOCSTRING]


@pytest.mark.slow
def test_the_source_of_mainstay_keeps_its_rules():
    findings = check_tree(ROOT)

    assert not findings, "\n" + "\n".join(map(str, findings))


@pytest.mark.slow
def test_the_rooms_and_limits_of_the_tree_are_kept():
    findings = check_house(ROOT)

    assert not findings, "\n" + "\n".join(map(str, findings))


@pytest.mark.slow
def test_retired_words_stay_out_of_literals_and_identifiers():
    findings = list(check_words(ROOT))

    assert not findings, "\n" + "\n".join(map(str, findings))


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (Rule.CLOCK, "import time"),
        (Rule.CLOCK, "import time as t\nt.time()"),
        (Rule.CLOCK, "from time import monotonic"),
        (Rule.CLOCK, "def f():\n    from time import monotonic as now\n    return now()"),
        (Rule.CLOCK, "import datetime\ndatetime.datetime.now()"),
        (Rule.CLOCK, "from datetime import datetime as dt\ndt.now()"),
        (Rule.CLOCK, "from datetime import datetime\ndatetime.utcnow()"),
        (Rule.CLOCK, "from datetime import datetime\nclock = datetime.now"),
        (Rule.CLOCK, "import datetime\nmoment = datetime.datetime\nmoment.today()"),
        (Rule.CLOCK, "from datetime import date\ndate.today()"),
        (Rule.CLOCK, "import asyncio\nasyncio.get_running_loop().time()"),
        (Rule.CLOCK, "import asyncio\nhere = asyncio.get_running_loop()\nhere.time()"),
        (Rule.CLOCK, "def f(loop):\n    return loop.time()"),
        (Rule.CLOCK, "class A:\n    def f(self):\n        return self._loop.time()"),
        (Rule.CLOCK, "from email.utils import formatdate"),
        (Rule.CHANCE, "import random\nrandom.random()"),
        (Rule.CHANCE, "import random\nrandom.Random(7)"),
        (Rule.CHANCE, "from random import Random\nRandom(7)"),
        (Rule.CHANCE, "from random import choice"),
        (Rule.CHANCE, "import random\nsource = random"),
        (Rule.CHANCE, "import secrets"),
        (Rule.CHANCE, "import uuid\nuuid.uuid4()"),
        (Rule.CHANCE, "from uuid import uuid4 as fresh"),
        (Rule.CHANCE, "import numpy as np\nnp.random.default_rng()"),
        (Rule.CHANCE, "from numpy import random"),
        (Rule.SYSTEM, "import os\nos.urandom(8)"),
        (Rule.SYSTEM, "from os import urandom"),
        (Rule.SYSTEM, "import os\nos.open('f', os.O_RDONLY)"),
        (Rule.SYSTEM, "import os\nos.fork()"),
        (Rule.SYSTEM, "import os\ngetattr(os, 'open')"),
        (Rule.FILE, "open('f')"),
        (Rule.FILE, "with open('f') as file:\n    pass"),
        (Rule.FILE, "read = open"),
        (Rule.FILE, "import io\nio.open('f')"),
        (Rule.FILE, "import shutil"),
        (Rule.FILE, "from tempfile import mkdtemp"),
        (Rule.FILE, "import os.path\nos.path.exists('f')"),
        (Rule.FILE, "from pathlib import Path\nPath('f').read_text()"),
        (Rule.FILE, "import pathlib\ndef f(p: pathlib.Path):\n    p.write_bytes(b'')"),
        (Rule.FILE, "from pathlib import Path\ndef f(p: Path):\n    return p.open"),
        (Rule.FILE, "from pathlib import Path\ndef f(p: Path):\n    (p / 'd').mkdir()"),
        (Rule.FILE, "from pathlib import Path\ndef f(p: Path, q: Path):\n    p.rename(q)"),
        (Rule.FILE, "from pathlib import Path\nclass A:\n    def f(self):\n        self.root.unlink()"),
        (Rule.FILE, "from pathlib import Path\nPath.cwd()"),
        (Rule.FILE, "import sqlite3"),
        (Rule.FILE, "import click\nclick.File('r')"),
        (Rule.NETWORK, "import socket"),
        (Rule.NETWORK, "from socket import create_connection"),
        (Rule.NETWORK, "import ssl\ndef f(context, s):\n    context.wrap_socket(s)"),
        (Rule.NETWORK, "import asyncio\nasyncio.open_connection('h', 1)"),
        (Rule.NETWORK, "import asyncio\nasyncio.start_server(f)"),
        (Rule.NETWORK, "import asyncio\nasyncio.get_running_loop().create_connection(f)"),
        (Rule.NETWORK, "def f(self):\n    self.loop.create_server(f)"),
        (Rule.NETWORK, "import grpc.aio as rpc"),
        (Rule.PROCESS, "import threading"),
        (Rule.PROCESS, "from multiprocessing import Process"),
        (Rule.PROCESS, "import concurrent.futures"),
        (Rule.PROCESS, "from concurrent import futures"),
        (Rule.PROCESS, "import subprocess"),
        (Rule.PROCESS, "from asyncio import to_thread"),
        (Rule.PROCESS, "import asyncio\nasyncio.get_event_loop().run_in_executor(None, f)"),
        (Rule.PROCESS, "import asyncio\ndef f(anything):\n    anything.run_in_executor(None, f)"),
        (Rule.TASK, "import asyncio\nasyncio.create_task(f())"),
        (Rule.TASK, "from asyncio import ensure_future"),
        (Rule.TASK, "import asyncio as a\nasync def f():\n    await a.sleep(1)"),
        (Rule.TASK, "import asyncio\nasync def f(group):\n    group.create_task(g())"),
        (Rule.TASK, "import asyncio\nasyncio.run(f())"),
        (Rule.TASK, "import asyncio\nasync def f():\n    await asyncio.wait_for(g(), 1)"),
        (Rule.TASK, "import uvloop"),
        (Rule.HIDDEN_IMPORT, "__import__('time')"),
        (Rule.HIDDEN_IMPORT, "import importlib\nimportlib.import_module('time')"),
        (Rule.PRINT, "print('hello')"),
        (Rule.SET_ORDER, "for x in {1, 2}:\n    pass"),
        (Rule.SET_ORDER, "for x in set(names):\n    pass"),
        (Rule.SET_ORDER, "for x in frozenset(n for n in names):\n    pass"),
        (Rule.SET_ORDER, "for x in {n for n in names}:\n    pass"),
        (Rule.SET_ORDER, "for x in set(a) - set(b):\n    pass"),
        (Rule.SET_ORDER, "for x in a.keys() & b.keys():\n    pass"),
        (Rule.SET_ORDER, "for x in set(a).union(b):\n    pass"),
        (Rule.SET_ORDER, "[f(x) for x in set(names)]"),
        (Rule.SET_ORDER, "{x: 1 for x in set(names)}"),
        (Rule.SET_ORDER, "list(set(names))"),
        (Rule.SET_ORDER, "next(iter({*names}))"),
        (Rule.SET_ORDER, "','.join(set(names))"),
        (Rule.SET_ORDER, "[*set(names)]"),
        (Rule.SET_ORDER, "set(names).pop()"),
        (Rule.SET_ORDER, "def f(names: frozenset[str]):\n    return [n for n in names]"),
        (Rule.SET_ORDER, "def f():\n    seen = set()\n    for n in seen:\n        pass"),
        (Rule.SET_ORDER, "class A:\n    names: frozenset[str]\n    def f(self):\n        return tuple(self.names)"),
        (
            Rule.SET_ORDER,
            "class A:\n    def __init__(self):\n        self.s: set[int] = set()\n"
            "    def f(self):\n        yield from self.s",
        ),
    ],
)
def test_a_planted_slip_is_found(rule: Rule, source: str):
    assert rules_broken(source) == [rule]


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self):\n        return self.time() + self.random()",
        "def f(time):\n    return time.time()",
        "def f(open):\n    return open('f')",
        "def f(print):\n    print('hello')",
        "from datetime import datetime, UTC\ndatetime.fromtimestamp(0, UTC)",
        "from datetime import datetime\ndef f(clock):\n    return clock.now()",
        "def f(event):\n    return event.time()",
        "import random\ndef f(stream: random.Random) -> int:\n    return stream.randrange(5)",
        "from random import Random\nclass A:\n    stream: Random",
        "import uuid\nuuid.UUID('00000000-0000-4000-8000-000000000000')",
        "import os.path\nos.path.join('a', 'b')",
        "import os\nos.environ['HOME']",
        "from pathlib import PurePosixPath\ndef f(writer):\n    writer.write_text('x')",
        "def f(writer):\n    writer.write_text('x')",
        "from pathlib import Path\ndef f(text: str):\n    return text.replace('a', 'b')",
        "from pathlib import Path\ndef f(disk):\n    disk.rename('a', 'b')",
        "from pathlib import Path\nfrom dataclasses import replace\nreplace(x)",
        "from pathlib import Path\nfrom mainstay.store.sqlite import SqliteStore\nSqliteStore.open(Path('d'))",
        "from pathlib import Path\nfrom mainstay.env.disk import Disk\ndef f(d: Disk | None):\n    d.open('x')",
        "from pathlib import Path\nclass A:\n    def f(self):\n        self.open()",
        "import asyncio\nasync def f():\n    await asyncio.wait([future])\n    return asyncio.get_running_loop()",
        "import asyncio\ndef f(loop):\n    loop.call_soon(f)\n    return loop.create_future()",
        "def f(jobs):\n    jobs.create_task('wash up')",
        "from mainstay.env import tasks\nfrom datetime import timedelta\ntasks.sleep(timedelta(seconds=1))",
        "import asyncio\nclass A(asyncio.Protocol):\n    pass",
        "for x in sorted(set(names)):\n    pass",
        "sorted(f(x) for x in {1, 2})",
        "sorted([*set(a), *b])",
        "sorted(map(str, set(names)))",
        "{f(x) for x in set(names)}",
        "any(x in names for x in {1, 2})",
        "x = {1, 2}\n3 in x",
        "def f():\n    seen = set()\n    seen = sorted(seen)\n    for n in seen:\n        pass",
        "for x in dict.fromkeys(names):\n    pass",
        "a - b",
        "stack = []\nstack.pop()",
    ],
)
def test_what_only_looks_like_a_slip_is_left_alone(source: str):
    assert rules_broken(source) == []


@pytest.mark.parametrize("path", ["mainstay/env/planted.py", "mainstay/sim/checkers/planted.py"])
def test_the_seam_and_the_simulator_may_ask_the_outside(path: str):
    source = "import time, random, socket, threading, os\nopen('f')\nos.urandom(1)\nrandom.random()"

    assert rules_broken(source, path=path) == []


def test_only_the_command_line_prints():
    assert rules_broken("print(1)", path="mainstay/cli/get.py") == []
    assert rules_broken("print(1)", path="mainstay/sim/loop/loop.py") == [Rule.PRINT]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("mainstay/store/memory.py", "import mainstay.api.pod"),
        ("mainstay/store/memory.py", "from mainstay import sim"),
        ("mainstay/store/etcd/kv.py", "from ...api import pod"),
        ("mainstay/store/__init__.py", "from ..sim.loop import SimLoop"),
        ("mainstay/env/disk.py", "from mainstay.api.quantities import parse"),
        ("mainstay/client/cache.py", "from mainstay.http import Request"),
        ("mainstay/server/request/app.py", "from mainstay.client.cache import Cache"),
        ("mainstay/scheduler/loop.py", "from mainstay.controllers import quota"),
        ("mainstay/journal/records.py", "def f():\n    from mainstay.explain import why"),
        ("mainstay/explain/why.py", "from mainstay.sim.cluster.world import World"),
        ("mainstay/__init__.py", "from mainstay.cli import main"),
    ],
)
def test_an_import_against_the_direction_is_found(path: str, source: str):
    assert rules_broken(source, path=path) == [Rule.DIRECTION]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("mainstay/store/memory.py", "from mainstay.store.errors import Closed\nfrom . import interface"),
        ("mainstay/store/etcd/kv.py", "from ..errors import Closed"),
        ("mainstay/store/memory.py", "from mainstay.env import tasks"),
        ("mainstay/server/request/app.py", "from mainstay.store.interface import Store"),
        ("mainstay/agent/loop.py", "from mainstay.loop import lease"),
        ("mainstay/scheduler/why/pods.py", "from mainstay.explain import moment"),
        ("mainstay/sim/cluster/world.py", "from mainstay.scheduler import loop"),
        ("mainstay/cli/main.py", "import mainstay.sim.loop.loop\nimport mainstay"),
        ("mainstay/api/pod.py", "import mainstays_cousin.sim"),
    ],
)
def test_an_import_along_the_direction_is_fine(path: str, source: str):
    assert rules_broken(source, path=path) == []


def test_the_directions_contain_no_circle():
    finished: list[str] = []
    while len(finished) < len(ALLOWED_IMPORTS):
        ready = [part for part, below in ALLOWED_IMPORTS.items() if part not in finished and {*below} <= {*finished}]
        assert ready, f"these import each other: {sorted({*ALLOWED_IMPORTS} - {*finished})}"
        finished += ready


def test_a_part_that_the_design_does_not_have_is_found():
    assert rules_broken("", path="mainstay/helpers/text.py") == [Rule.UNKNOWN_PACKAGE]
    assert rules_broken("", path="mainstay/misc.py") == [Rule.UNKNOWN_PACKAGE]


def test_a_module_without_a_docstring_is_found():
    assert check_source("mainstay/api/pod.py", "x = 1\n") == [
        Finding("mainstay/api/pod.py", 1, Rule.DOCSTRING, "no docstring")
    ]
    assert check_source("mainstay/api/pod.py", '"""What a pod is."""\n') == []


def test_a_module_that_is_too_long_is_found():
    assert rules_broken("\n" * LINES_MAX) == []
    assert rules_broken("\n" * (LINES_MAX + 1)) == [Rule.LENGTH]


def a_tree(root: Path, **sources: str) -> Path:
    for name, source in sources.items():
        file = root / "mainstay" / "store" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'"""Planted."""\n{source}\n')
    return root


def test_an_exception_excuses_its_own_module_only(tmp_path: Path):
    root = a_tree(tmp_path, log="import sqlite3\nsqlite3.connect('f')", other="import sqlite3")

    findings = check_tree(root, exceptions=[("mainstay/store/log.py", "sqlite3")])

    assert findings == [Finding("mainstay/store/other.py", 2, Rule.FILE, "sqlite3")]


def test_an_exception_that_excuses_nothing_any_more_is_found(tmp_path: Path):
    root = a_tree(tmp_path, log="")

    findings = check_tree(root, exceptions=[("mainstay/store/log.py", "sqlite3")])

    assert findings == [Finding("mainstay/store/log.py", 1, Rule.STALE_EXCEPTION, "sqlite3")]


def test_generated_modules_are_not_looked_at(tmp_path: Path):
    root = a_tree(tmp_path, rpc_pb2="import time", rpc_pb2_grpc="import grpc")

    assert check_tree(root, exceptions=[]) == []


def a_house(root: Path, **sources: str) -> Tree:
    """A tree of modules whose paths are given with `__` for a slash, each folder with its `__init__`."""
    for name, source in sources.items():
        file = (root / "mainstay" / name.replace("__", "/")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (file.parent, *file.parent.parents):
            if root / "mainstay" in (folder, *folder.parents):
                (folder / "__init__.py").touch()
        file.write_text(source + "\n")
    return Tree.read(root)


def whats(findings: object) -> list[tuple[Rule, str]]:
    return [(finding.rule, finding.what) for finding in findings]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "source",
    [
        "from mainstay.server.watch.window import Window",
        "from mainstay.server.watch import window",
        "import mainstay.server.watch.window as w",
        "def f():\n    from ..server.watch import window",
    ],
)
def test_an_import_past_the_door_of_a_room_is_found(tmp_path: Path, source: str):
    tree = a_house(tmp_path, cli__get=source, server__watch__window="class Window: ...")

    assert whats(tidy_tree.check_rooms(tree, {}, {})) == [(Rule.INTERNAL, "server/watch: window")]
    assert whats(tidy_tree.check_rooms(tree, {"server/watch": "window"}, {})) == []


def test_an_inner_door_is_open_to_the_rooms_of_its_package_only(tmp_path: Path):
    source = "from mainstay.server.watch import window"
    tree = a_house(tmp_path, cli__get=source, server__request__app=source, server__watch__window="")

    findings = list(tidy_tree.check_rooms(tree, {}, {"server/watch": "window"}))

    assert [(f.path, f.rule) for f in findings] == [
        ("mainstay/cli/get.py", Rule.INTERNAL),
        ("tests/tidy_doors.py", Rule.STALE_DOOR),  # It should be a door for all packages instead.
    ]


def test_a_room_itself_and_its_own_modules_need_no_door(tmp_path: Path):
    inside = "from mainstay.server.watch.window import Window\nfrom mainstay.server import settings"
    tree = a_house(
        tmp_path, cli__get="from mainstay.server import watch", server__watch__feed=inside, server__watch__window="",
        server__settings=""
    )  # fmt: skip

    assert whats(tidy_tree.check_rooms(tree, {}, {})) == []


def test_a_door_that_no_import_uses_is_found(tmp_path: Path):
    tree = a_house(tmp_path, server__watch__window="")

    assert whats(tidy_tree.check_rooms(tree, {"server/watch": "window"}, {})) == [
        (Rule.STALE_DOOR, "server/watch: window")
    ]


def test_a_direction_that_no_import_takes_is_found(tmp_path: Path):
    tree = a_house(tmp_path, cli__get="import mainstay.api.pod", api__pod="", env__clock="")

    assert whats(tidy_tree.check_directions(tree, {"cli": ("api", "env")})) == [
        (Rule.STALE_DIRECTION, "cli may import env")
    ]


def test_a_module_that_imports_too_many_others_is_found(tmp_path: Path):
    parts = [f"part_{number}" for number in range(FAN_OUT_MAX + 1)]
    sources = {f"api__{part}": "" for part in parts}
    tree = a_house(tmp_path, cli__get="\n".join(f"from mainstay.api import {part}" for part in parts), **sources)

    assert whats(tidy_tree.check_fan_out(tree, ())) == [(Rule.FAN_OUT, f"imports {FAN_OUT_MAX + 1} modules")]
    assert whats(tidy_tree.check_fan_out(tree, ["mainstay/cli/get.py"])) == []


def test_a_function_with_too_many_parameters_is_found(tmp_path: Path):
    names = ", ".join(f"p{number}" for number in range(PARAMETERS_MAX))
    source = (
        f"def fine({names}): ...\nclass A:\n    def fine(self, {names}): ...\n    def long(self, {names}, *, k): ..."
    )
    tree = a_house(tmp_path, cli__get=source, cli__run=f"@click.command()\ndef run({names}, k): ...")

    assert whats(tidy_tree.check_parameters(tree, ())) == [
        (Rule.PARAMETERS, f"long has {PARAMETERS_MAX + 1} parameters")
    ]


def test_a_class_name_in_two_modules_is_found(tmp_path: Path):
    tree = a_house(
        tmp_path,
        api__pod="class Plan: ...\nclass _Item: ...",
        api__node="class Plan: ...\nclass _Item: ...",
        cli__get="",
    )

    assert whats(tidy_tree.check_class_names(tree)) == [
        (Rule.CLASS_NAME, "Plan in mainstay/api/node.py, mainstay/api/pod.py")
    ]


def test_a_function_that_does_not_say_what_it_does_is_found(tmp_path: Path):
    tree = a_house(
        tmp_path, api__pod="def node_of(): ...\nclass A:\n    def is_one_of(self): ...\ndef find_node(): ..."
    )

    assert whats(tidy_tree.check_function_names(tree, ["mainstay/api/pod.py is_one_of"])) == [
        (Rule.FUNCTION_NAME, "node_of")
    ]


def test_a_module_named_for_an_activity_is_found(tmp_path: Path):
    tree = a_house(tmp_path, cli__telling="", api__scheduling="")

    assert whats(tidy_tree.check_module_names(tree, ["mainstay/api/scheduling.py"])) == [
        (Rule.MODULE_NAME, "ends in -ing")
    ]


@pytest.mark.parametrize("check", ["check_fan_out", "check_parameters", "check_function_names", "check_module_names"])
def test_a_debt_that_is_paid_is_found(tmp_path: Path, check: str):
    tree = a_house(tmp_path, cli__get="")

    assert whats(getattr(tidy_tree, check)(tree, ["long paid"])) == [(Rule.STALE_EXCEPTION, "long paid")]


@pytest.mark.parametrize(
    ("place", "source"),
    [
        (Place.LITERAL, "x = 'nobody came'"),
        (Place.LITERAL, "x = f'{y} Whoever'"),
        (Place.LITERAL, "x = f'{pod} was told to go'"),
        (Place.IDENTIFIER, "def tell_whoever(): ..."),
        (Place.IDENTIFIER, "class NobodyCame: ..."),
        (Place.IDENTIFIER, "class Escort: ..."),
        (Place.IDENTIFIER, "f(nobody=1)"),
        (Place.DOCSTRING, "def f():\n    'For whoever asks.'"),
        (Place.COMMENT, "x = 1  # Nobody asks."),
    ],
)
def test_a_retired_word_is_found_where_it_stands(place: Place, source: str):
    assert [use.place for use in find_uses("mainstay/store/planted.py", source)] == [place]


def test_a_docstring_that_users_read_is_a_literal():
    (use,) = find_uses("mainstay/cli/planted.py", "def f():\n    'For whoever asks.'")

    assert use.place is Place.LITERAL


@pytest.mark.parametrize(
    "source", ["canewhoevers = 1", "escorted = 'ALONE'", "x = 'an ewe'", "x = 1\n'It was told to go.'"]
)
def test_what_only_contains_the_letters_of_a_retired_word_is_left_alone(source: str):
    assert list(find_uses("mainstay/store/planted.py", source)) == []


def test_a_loop_that_nothing_supervises_is_found(tmp_path: Path):
    source = """
from mainstay.env import tasks, vital

async def forever():
    while True:
        await work()

async def once():
    await work()

def start():
    tasks.spawn(forever(), name="a")
    tasks.spawn(once(), name="b")
    vital.spawn(forever(), name="c")
"""
    tree = a_house(tmp_path, server__planted=source, server__excused=source)

    found = tidy_tree.check_loops(tree, [("mainstay/server/excused.py", "forever"), ("mainstay/gone.py", "forever")])

    assert [(finding.path, finding.line, finding.rule) for finding in found] == [
        ("mainstay/server/planted.py", 12, Rule.UNSUPERVISED),
        ("mainstay/gone.py", 1, Rule.STALE_EXCEPTION),
    ]
