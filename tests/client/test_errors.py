"""From an answer to the exception that says what to do next."""

import json
from datetime import timedelta

import pytest

from mainstay.client import errors
from mainstay.client.dispatch import parse_retry_after
from mainstay.client.errors import ApiError, Throttled, build_error, error_of_event


def a_status(code: int, reason: str = "", message: str = "no", **details: object) -> bytes:
    return json.dumps(
        {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    ).encode()


def error(status: int, body: bytes = b"", retry_after: timedelta | None = None, *, is_read: bool = False) -> ApiError:
    return build_error(status, body, retry_after=retry_after, is_read=is_read)


FENCED = {"causes": [{"reason": "Fenced", "message": "another leader is in office"}]}
PUT_BACK = {"causes": [{"reason": "StorePutBack", "message": "it was put back"}]}


@pytest.mark.parametrize(
    ("status", "reason", "details", "expected"),
    [
        (400, "BadRequest", {}, errors.BadRequest),
        (401, "Unauthorized", {}, errors.Unauthorized),
        (403, "Forbidden", {}, errors.Forbidden),
        (404, "NotFound", {}, errors.NotFound),
        (405, "MethodNotAllowed", {}, errors.BadRequest),
        (409, "AlreadyExists", {}, errors.AlreadyExists),
        (409, "Conflict", {}, errors.Conflict),
        (409, "Conflict", FENCED, errors.Fenced),
        (410, "Expired", PUT_BACK, errors.PutBack),
        (409, "", {}, errors.Conflict),
        (410, "Expired", {}, errors.Expired),
        (410, "Gone", {}, errors.Expired),
        (413, "RequestEntityTooLarge", {}, errors.BadRequest),
        (415, "UnsupportedMediaType", {}, errors.BadRequest),
        (422, "Invalid", {}, errors.Invalid),
        (429, "TooManyRequests", {}, errors.Throttled),
        (500, "InternalError", {}, errors.Unavailable),
        (503, "ServiceUnavailable", {}, errors.Unavailable),
        (418, "Teapot", {}, ApiError),
        (302, "", {}, ApiError),
    ],
)
def test_each_answer_has_its_exception(status, reason, details, expected):
    raised = error(status, a_status(status, reason, **details))

    assert (type(raised), raised.status, raised.reason, str(raised)) == (expected, status, reason, "no")


def test_a_fenced_write_is_a_conflict_too():
    assert issubclass(errors.Fenced, errors.Conflict)
    assert error(409, a_status(409, "Conflict", causes=FENCED["causes"])).causes == (
        errors.ErrorCause("Fenced", "", "another leader is in office"),
    )


@pytest.mark.parametrize(
    ("status", "reason", "retry_after", "is_read", "may_have_happened"),
    [
        (500, "InternalError", None, False, True),
        (500, "InternalError", None, True, False),
        (502, "", None, False, True),
        (503, "", timedelta(seconds=1), False, True),  # A proxy in between answers so, too.
        (503, "ServiceUnavailable", None, False, True),
        (503, "ServiceUnavailable", timedelta(seconds=1), False, False),
        (504, "Timeout", timedelta(seconds=1), False, True),
        (507, "InternalError", None, False, False),
        (408, "RequestTimeout", None, False, False),
        (409, "Conflict", None, False, False),
        (429, "TooManyRequests", None, False, False),
    ],
)
def test_what_may_have_happened_all_the_same(status, reason, retry_after, is_read, may_have_happened):
    raised = error(status, a_status(status, reason), retry_after, is_read=is_read)

    assert raised.may_have_happened is may_have_happened


@pytest.mark.parametrize(
    ("header", "detail", "expected"),
    [(5, None, 5), (None, 7, 7), (5, 7, 5), (None, None, 1), (None, 0, 1), (None, "soon", 1), (None, True, 1)],
)
def test_how_long_to_stay_away(header, detail, expected):
    details = {} if detail is None else {"retryAfterSeconds": detail}
    raised = error(429, a_status(429, **details), None if header is None else timedelta(seconds=header))

    assert isinstance(raised, Throttled)
    assert raised.retry_after == timedelta(seconds=expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("5", 5),
        (" 0 ", 0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 1),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("9" * 99, None),
    ],
)
def test_what_a_server_asks_for_in_its_header(value, expected):
    assert parse_retry_after({"retry-after": value}) == (None if expected is None else timedelta(seconds=expected))


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b'{"kind": 5}', b"\xff\xfe", b"[]", b"null"])
def test_an_answer_that_is_no_status_is_shown_as_it_is(body):
    raised = error(502, body)

    assert isinstance(raised, errors.Unavailable)
    assert "502" in str(raised)
    assert body.decode(errors="replace") in str(raised)


def test_a_long_answer_is_cut_short():
    assert len(str(error(502, b"x" * 100_000))) < 2000


@pytest.mark.parametrize("causes", [None, "x", [5], {"reason": "Fenced"}])
def test_odd_causes_are_no_causes(causes):
    raised = error(409, a_status(409, "Conflict", causes=causes))

    assert (type(raised), raised.causes) == (errors.Conflict, ())


def test_an_error_in_a_watch_is_by_its_code():
    assert type(error_of_event(a_status(410, "Expired"))) is errors.Expired
    assert type(error_of_event(a_status(500))) is errors.Unavailable
    assert type(error_of_event(b"{}")) is ApiError
