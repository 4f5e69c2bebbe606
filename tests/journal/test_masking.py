"""What is written down of a Secret: names and lengths, and no value wherever it hides."""

import base64
import json

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mainstay.env.disk import Disk
from mainstay.journal.files import Series
from mainstay.journal.history import HistoryRecorder
from mainstay.journal.reader import Reader
from mainstay.journal.scan import Scan
from mainstay.journal.secret_mask import masked
from mainstay.server.decisions.history_source import StoreHistory
from mainstay.sim.simulation import Simulation
from mainstay.store import open_memory
from mainstay.store.interface import Put
from tests.journal.builders import a_pod
from tests.twins import journal as twins

KEY = "core/secrets/default/s"


def test_a_secret_keeps_the_names_of_its_values_and_their_lengths():
    secret = {
        "metadata": {
            "name": "s",
            "labels": {"app": "web"},
            "annotations": {
                "owner": "payments",
                "kubectl.kubernetes.io/last-applied-configuration": '{"kind":"Secret","stringData":{"pin":"1234"}}',
            },
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:data": {"f:pin": {}}}}],
        },
        "type": "Opaque",
        "immutable": True,
        "data": {"pin": base64.b64encode(b"1234").decode(), "empty": ""},
        "stringData": {"name": "é"},
        "spec": "something that a Secret does not have",
    }

    assert json.loads(masked(KEY, json.dumps(secret).encode())) == {
        "metadata": {
            **secret["metadata"],  # type: ignore[dict-item]
            "annotations": {
                "owner": "payments",
                "kubectl.kubernetes.io/last-applied-configuration": "(secret, 45 bytes)",
            },
        },
        "type": "Opaque",
        "immutable": True,
        "data": {"pin": "(secret, 4 bytes)", "empty": "(secret, 0 bytes)"},
        "stringData": {"name": "(secret, 2 bytes)"},
    }


@pytest.mark.parametrize(
    "value", [b"", b"[1]", b"\xff", b'{"data":7,"metadata":[]}', b'{"data":{"a":null}}', b"{" * 99]
)
def test_what_is_no_proper_secret_keeps_nothing(value: bytes):
    assert json.loads(masked(KEY, value)) in (
        {"metadata": {}},
        {"metadata": {}, "data": {}},
        {"metadata": {}, "data": {"a": "(secret)"}},
    )


def test_other_objects_are_left_as_they_are():
    assert masked("core/configmaps/default/s", b'{"data":{"a":"b"}}') == b'{"data":{"a":"b"}}'


# Long enough that they do not come about by chance. Letters that JSON and base64 treat differently are among them.
VALUES = st.text(alphabet='abcXYZ019+/="\\é\n', min_size=12, max_size=40)


@st.composite
def secrets(draw: st.DrawFn) -> tuple[dict[str, object], list[str]]:
    data = draw(st.dictionaries(st.sampled_from(["password", "token"]), VALUES, max_size=2))
    plain = draw(st.dictionaries(st.sampled_from(["pin", "key"]), VALUES, max_size=2))
    in_base64 = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    secret: dict[str, object] = {"type": "Opaque", "data": in_base64, "stringData": plain}
    applied = json.dumps({**secret, "kind": "Secret"})
    texts = [*data.values(), *plain.values(), *in_base64.values()]
    copies = {
        "kubectl.kubernetes.io/last-applied-configuration": applied,
        "kapp.k14s.io/original": json.dumps(applied),
        "as-it-is": draw(st.sampled_from([*texts, "harmless"])),
        "with-more": "the value is " + draw(st.sampled_from([*texts, "harmless"])) + "!",
        "harmless": "true",
    }
    wanted = draw(st.lists(st.sampled_from(sorted(copies)), unique=True))
    secret["metadata"] = {"name": "s", "annotations": {name: copies[name] for name in wanted}}
    return secret, texts


def forms(text: str) -> list[bytes]:
    """A value in all the forms in which it could be in a file."""
    return [
        text.encode(),
        base64.b64encode(text.encode()),
        json.dumps(text)[1:-1].encode(),
        msgspec.json.encode(text)[1:-1],
    ]


def contents(disk: Disk) -> bytes:
    """Everything in a journal: as it is on the disk, and uncompressed."""
    raw = [disk.read(name) for name in disk.names()]
    scan = Scan([disk])
    records = [repr(block.records).encode() for series in Series for block in scan.blocks(series)]
    values = [msgspec.msgpack.encode(block.records) for series in Series for block in scan.blocks(series)]
    return b"\n".join([*raw, *records, *values])


Drawn = tuple[dict[str, object], list[str]]


async def record_and_look(sim: Simulation, before: Drawn, after: Drawn) -> None:
    """Record a Secret in a snapshot, and another state of it in a change; then look for its values everywhere."""
    store, disk = await open_memory(), sim.get_disk("journal")
    await store.commit([], [Put(KEY, msgspec.json.encode(before[0]))])
    recorder = HistoryRecorder(disk, StoreHistory(store), sim.get_clock("journal"))
    await recorder.start()
    await store.commit([], [Put(KEY, msgspec.json.encode(after[0])), Put("core/pods/default/p", a_pod("p"))])
    await recorder.reach(3)
    found = contents(disk)
    await recorder.close()
    found += contents(disk)
    assert len(Reader(disk).state({"secrets": 3}).kinds["secrets"]) == 1
    for text in (*before[1], *after[1]):
        for form in forms(text):
            assert form not in found


def look_for_values() -> None:
    @settings(max_examples=40, phases=[Phase.generate])
    @given(before=secrets(), after=secrets())
    def look(before: Drawn, after: Drawn) -> None:
        with Simulation(1) as sim:
            sim.run(record_and_look(sim, before, after))

    look()


def test_no_value_of_a_secret_is_in_any_file():
    look_for_values()


def test_a_journal_that_does_not_mask_is_caught(monkeypatch):
    twins.writes_secrets_as_they_are(monkeypatch)

    with pytest.raises(AssertionError):
        look_for_values()


def test_a_journal_that_trusts_annotations_is_caught(monkeypatch):
    twins.trusts_annotations(monkeypatch)

    with pytest.raises(AssertionError):
        look_for_values()
