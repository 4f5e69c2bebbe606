"""Quantities are read exactly, and written as Kubernetes writes them."""

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import quantity
from mainstay.api.quantity import Format, Quantity, canonical, parse, to_int, to_milli

WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "e3", "E-2", "e+4", "e0"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"),
        ("0m", "0"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("12000000", "12M"),
        ("-1000m", "-1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("-2048Ki", "-2Mi"),
        ("1.1Mi", "1153433600m"),
        ("100e3", "100e3"),
        ("12e4", "120e3"),
        ("1000e3", "1e6"),
        ("1e1", "10"),
        ("1E3", "1E3"),
        ("1E", "1E"),
        ("5000E", "5000E"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("0.0000000001", "1n"),
        ("1e-30", "1e-9"),
        ("1000n", "1u"),
        ("100Ei", "9223372036854775807"),
        (" 1Gi ", "1Gi"),
    ],
)
def test_a_quantity_is_written_without_fraction_and_with_the_largest_suffix(text, written):
    assert canonical(text) == written


@pytest.mark.parametrize("text", ["1.500", "1.234", "+5", "007", "01Gi", "5.", "1e0", "10E-3"])
def test_a_text_whose_digits_fit_its_suffix_is_kept_as_it_stands(text):
    assert canonical(text) == text


@pytest.mark.parametrize(("value", "written"), [(1, "1"), (1000, "1k"), (0.5, "500m"), (1.0, "1"), (-2, "-2")])
def test_numbers_in_json_are_quantities_too(value, written):
    assert canonical(value) == written


@pytest.mark.parametrize("text", ["", "-", "Mi", "x", "1.1.1", "1 Gi", "--1", "1" * 401, "1Ki\n1", "١"])
def test_what_is_no_quantity_is_refused_in_the_known_words(text):
    with pytest.raises(ValueError, match=f"^{re.escape(WRONG_FORM)}$"):
        parse(text)


@pytest.mark.parametrize("text", ["1i", "1e", "1Ki3", "1mm", "1ki", "1e401", "1e99999999999999999999"])
def test_an_unknown_suffix_is_refused(text):
    with pytest.raises(ValueError, match="unable to parse quantity's suffix"):
        parse(text)


@pytest.mark.parametrize("value", [".", "+."])
def test_a_number_needs_a_digit(value):
    with pytest.raises(ValueError, match="unable to parse numeric part of quantity"):
        parse(value)


@pytest.mark.parametrize("value", [True, float("nan"), float("inf"), None, []])
def test_other_values_of_json_are_no_quantities(value):
    with pytest.raises(ValueError, match="quantities must match"):
        parse(value)


def test_whole_units_and_thousandths_are_rounded_away_from_zero():
    assert [to_int(each) for each in ("1", "1500m", "-1500m", "1n", "2Ki", "0")] == [1, 2, -2, 1, 2048, 0]
    assert [to_milli(each) for each in ("1", "1500m", "0.5", "1n", "-1u", "1Ki")] == [1000, 1500, 500, 1, -1, 1024000]


def test_a_sum_is_written_like_its_first_part_unless_that_is_zero():
    assert str(parse("1Gi") + parse("1024M")) == "2048576Ki"
    assert str(parse("512Mi") + parse("1536Mi")) == "2Gi"
    assert str(parse("0") + parse("2048Mi")) == "2Gi"
    assert str(parse("1") - parse("250m")) == "750m"
    assert str(-parse("1Gi")) == "-1Gi"


def test_quantities_are_compared_by_their_amount():
    assert parse("1000m") == parse("1") == parse("1e0")
    assert hash(parse("1000m")) == hash(parse("1"))
    assert parse("1Gi") > parse("1G") >= parse("1G")
    assert sorted(map(parse, ["1Gi", "5m", "-1"])) == [parse("-1"), parse("5m"), parse("1Gi")]
    assert [quantity.compare("1", "2"), quantity.compare("2", "2000m"), quantity.compare("1Ki", "1k")] == [-1, 0, 1]
    assert not parse("0Gi")
    assert parse("1n")


def numbers() -> st.SearchStrategy[str]:
    return st.from_regex(r"[+-]?([0-9]{1,20}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)


def exact(text: str, suffix: str) -> Fraction:
    """What a text means, computed in another way."""
    binary = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5}
    decimal = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
    number = Fraction(text.removesuffix("."))
    if suffix in binary:
        return number * int(1024 ** binary[suffix])
    power = decimal[suffix] if suffix in decimal else int(suffix[1:])
    return number * (Fraction(10**power) if power >= 0 else Fraction(1, 10**-power))


@given(number=numbers(), suffix=st.sampled_from(SUFFIXES))
def test_the_amount_is_exact_up_to_rounding_below_a_billionth(number, suffix):
    found = parse(number + suffix)
    wanted = exact(number, suffix) * quantity.NANO

    if abs(wanted) < (2**63 - 1) * quantity.NANO or not suffix.endswith("i"):
        assert abs(wanted) <= abs(found.nano) < abs(wanted) + 1


@given(number=numbers(), suffix=st.sampled_from(SUFFIXES))
def test_writing_keeps_the_amount_and_what_is_written_stays(number, suffix):
    written = canonical(number + suffix)

    assert parse(written) == parse(number + suffix)
    assert canonical(written) == written


@given(nano=st.integers(-(10**30), 10**30), form=st.sampled_from(list(Format)))
def test_every_amount_is_read_as_it_is_written(nano, form):
    written = str(Quantity(nano, form))

    if abs(nano) < (2**63 - 1) * quantity.NANO:
        assert parse(written).nano == nano
