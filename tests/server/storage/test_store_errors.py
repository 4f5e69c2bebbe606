"""What a client hears of a store that fails: what to do, and nothing of the server's files and addresses."""

import pytest

from mainstay.server.storage.store_errors import translate_store_error
from mainstay.store import errors
from mainstay.store.errors import StoreError

SECRET = "/var/lib/mainstay/store.db at 10.0.0.7:2379"


@pytest.mark.parametrize(
    ("error", "code", "retries"),
    [
        (errors.StorageFull, 507, False),
        (errors.StoreUnavailable, 503, True),
        (errors.StoreClosed, 503, True),
        (errors.Corrupt, 503, True),
        (errors.OutcomeUnknown, 504, False),
        (errors.TransactionTooLarge, 413, False),
    ],
)
def test_a_failure_says_what_to_do_and_not_where_the_server_keeps_its_files(
    error: type[StoreError], code: int, retries: bool
):
    told = translate_store_error(error(SECRET))
    assert (told.code, told.retry_after_s is not None) == (code, retries)
    assert SECRET not in told.message
