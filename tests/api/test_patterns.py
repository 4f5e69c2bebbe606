"""Patterns as Go understands them, in time that only grows with the text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.patterns import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"^[a-z]([-a-z0-9]*[a-z0-9])?$", "web-1", "web-"),
        ("^a$", "a", "a\n"),
        ("(?m)^b$", "a\nb\nc", "a\nbc"),
        ("a|b", "xb", "x"),
        ("^a{2,3}$", "aaa", "aaaa"),
        ("^a{2,}$", "aaaa", "a"),
        ("^a{,2}$", "a{,2}", "aa"),
        ("(?i)abc", "xABc", "ab"),
        ("a(?i)b|c", "C", "AB"),
        ("a(?i:b)c", "aBc", "aBC"),
        ("a.b", "axb", "a\nb"),
        ("(?s)a.b", "a\nb", "ab"),
        (r"\bfoo\b", "a foo.", "afoo"),
        (r"^\w+$", "a_1", "é"),
        (r"^\p{L}+$", "éa", "1"),
        (r"^[^\pN]$", "a", "٣"),
        ("^[[:alpha:]_-]+$", "ab_-", "a1"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^\x41\x{1F600}$", "A😀", "A"),
        ("^[]a]$", "]", "b"),
        ("^(?P<one>a)(?<two>b)$", "ab", "a"),
        ("^(|x)*$", "xx", "xy"),
        (r"[^\x00-\x{10FFFF}]|z", "z", "a"),
    ],
)
def test_a_pattern_is_read_as_go_reads_it(pattern: str, matching: str, other: str):
    assert compile_pattern(pattern).matches(matching)
    assert not compile_pattern(pattern).matches(other)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a++", "invalid nested repetition operator: `++`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"a\Z", r"invalid escape sequence: `\Z`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)b", "invalid or unsupported Perl syntax: `(?<!`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(?P<>a)", "invalid named capture: `(?P<>`"),
    ],
)
def test_what_go_refuses_is_refused_in_its_words(pattern: str, words: str):
    with pytest.raises(ValueError, match=re.escape(f"error parsing regexp: {words}") + "$"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
        ("((((){1000}){1000}){1000}){1000}", "invalid repeat count: `{1000}`"),
        ("a{1000}" * 700, "expression too large: ``"),
    ],
)
def test_a_pattern_that_would_take_too_much_is_refused(pattern: str, words: str):
    with pytest.raises(ValueError, match=re.escape(f"error parsing regexp: {words}") + "$"):
        compile_pattern(pattern)


def test_a_single_byte_cannot_be_asked_for_because_go_has_no_such_escape():
    with pytest.raises(ValueError, match=re.escape(r"invalid escape sequence: `\C`")):
        compile_pattern(r"a\C")
    assert compile_pattern(r"^\Qa\C\E$").matches(r"a\C")
    assert compile_pattern(r"^\\C$").matches(r"\C")


@pytest.mark.parametrize("pattern", ["(" * 100_000 + ")" * 100_000, "(?:a|" * 20_000 + ")" * 20_000])
def test_deep_nesting_does_not_exhaust_the_stack(pattern: str):
    assert compile_pattern(pattern).matches("")


def test_a_text_that_is_not_unicode_is_matched_too():
    assert compile_pattern("^.$").matches("\ud800")


def test_no_pair_of_pattern_and_text_takes_long():
    assert not compile_pattern("^(a+)+$").matches("a" * 100_000 + "b")  # Would take Python's `re` for ever.


def test_memory_is_bounded_and_changes_no_answer():
    pattern = compile_pattern("^[^x]*$")

    assert pattern.matches("".join(map(chr, range(0x4E00, 0x4E00 + 20_900))))
    assert pattern.matches("".join(map(chr, range(0xAC00, 0xAC00 + 11_000))))
    assert not pattern.matches("x")


_PARTS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", ".", "^", "$", r"\b", r"\w"]),
    lambda parts: st.one_of(
        st.tuples(parts, parts).map("".join),
        st.tuples(parts, parts).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?"])).map(
            lambda two: f"({two[0]}){two[1]}"
        ),
    ),
    max_leaves=8,
)


@given(_PARTS, st.text("ab\n", max_size=8))
def test_what_both_understand_is_matched_as_python_matches_it(pattern: str, text: str):
    expected = re.compile(pattern.replace("$", r"\Z"), re.ASCII).search(text) is not None

    assert compile_pattern(pattern).matches(text) is expected
