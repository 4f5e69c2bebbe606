"""What is printed: tables, YAML that everybody reads the same way, and templates."""

from typing import Any

import click
import pytest
import yaml

from mainstay.api.yaml_body import parse_yaml
from mainstay.cli.jsonpath_template import BadTemplate, compile_template
from mainstay.cli.table_text import TableText
from mainstay.cli.yaml_text import yaml_text

PODS = {
    "items": [
        {"metadata": {"name": "a", "labels": {"app.io/x": "1"}}, "spec": {"n": 2}, "status": {"phase": "Running"}},
        {"metadata": {"name": "b"}, "spec": {"on": True, "ports": [80, 443]}, "status": {"phase": "Pending"}},
    ]
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.items[*].metadata.name}", "a b"),
        (".items[0].metadata.name", "a"),
        ("{$.items[0].metadata.name}", "a"),
        ("{.items[1].spec}", '{"on":true,"ports":[80,443]}'),
        ("{.items[1].spec.ports[-1]}", "443"),
        ("{.items[0].metadata.labels.app\\.io/x}", "1"),
        ("{.items[?(@.status.phase=='Pending')].metadata.name}", "b"),
        ("{.items[0].none.at.all}", ""),
        ("names: {.items[*].metadata.name}!", "names: a b!"),
        ('{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}', "a\tRunning\nb\tPending\n"),
        ("{range .items[*]}{@.metadata.name}{','}{end}", "a,b,"),
        ("{range .items[*]}{range .spec.ports[*]}<{@}>{end};{end}", ";<80><443>;"),
        ('{"{}"}', "{}"),
        ("nothing", "nothing"),
    ],
)
def test_a_template_is_filled(template: str, text: str):
    assert compile_template(template).filled(PODS) == text


@pytest.mark.parametrize("template", ["{", "{.a", "{range .items[*]}", "{end}", "{}", "{.a..b}", "{range}{end}"])
def test_a_template_that_makes_no_sense_is_refused(template: str):
    with pytest.raises(BadTemplate):
        compile_template(template)


def test_a_path_that_makes_no_sense_in_an_object_is_refused():
    with pytest.raises(BadTemplate):
        compile_template("{.items[7]}").filled(PODS)


@pytest.mark.parametrize(
    "value",
    [
        "y",
        "no",
        "On",
        "null",
        "~",
        "1",
        "1e3",
        "0o17",
        "1_000",
        "1.5",
        ".5",
        "12:30",
        "0x1f",
        "",
        " a ",
        "a: b",
        "#",
        "2026-01-01",
        "a b",
    ],
)
def test_a_text_that_looks_like_something_else_is_still_a_text_for_every_reader(value: str):
    written = yaml_text({"value": value})
    assert parse_yaml(written.encode()).value == {"value": value}
    assert yaml.safe_load(written) == {"value": value}


def test_yaml_is_sorted_and_reads_well():
    value: dict[str, Any] = {"b": [{"name": "x"}], "a": {"script": "one\ntwo\n", "é": "ü"}, "c": [], "d": 1, "t": True}
    assert yaml_text(value) == "a:\n  script: |\n    one\n    two\n  é: ü\nb:\n- name: x\nc: []\nd: 1\nt: true"
    shared = {"x": 1}
    assert "&" not in yaml_text([shared, shared])


def test_columns_are_as_wide_as_they_need_to_be_and_cells_have_one_line():
    table = TableText(["Name", "Age", "Message"], is_coloured=False)
    assert table.lines([["a-long-name", 3, "two\nlines"], ["b", None, True]], with_titles=True) == [
        "NAME          AGE   MESSAGE",
        "a-long-name   3     two...",
        "b                   true",
    ]
    assert table.lines([["c", 1, ""]], with_titles=False) == ["c             1"]


def test_what_would_control_a_terminal_is_shown_instead():
    assert TableText(["Name"], is_coloured=True).lines([["\x1b[31mred"]], with_titles=False) == ["^[[31mred"]


def test_colours_are_only_for_terminals_and_do_not_move_columns():
    rows = [["a", "Running", "5s"], ["b", "CrashLoopBackOff", "5s"], ["c", "Pending", "5s"]]
    titles = ["Name", "Status", "Age"]
    plain = TableText(titles, is_coloured=False).lines(rows, with_titles=True)
    coloured = TableText(titles, is_coloured=True).lines(rows, with_titles=True)
    assert [click.unstyle(line) for line in coloured] == plain
    assert click.style("Running", fg="green") in coloured[1]
    assert click.style("CrashLoopBackOff", fg="red") in coloured[2]
    assert click.style("Pending", fg="yellow") in coloured[3]
