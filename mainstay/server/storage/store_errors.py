"""What a client hears when the store fails. What the store says itself names files and addresses of the server: that is
for the log."""

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.store.errors import (
    InvalidStoreRequest,
    OutcomeUnknown,
    StorageFull,
    StoreError,
    TransactionTooLarge,
    UnknownEncryptionKey,
)
from mainstay.store.interface import TRANSACTION_BYTES_MAX


def translate_store_error(error: StoreError) -> StatusError:
    match error:
        case OutcomeUnknown():
            text = "the outcome is unknown: the write may or may not have happened, read before you repeat it"
            return StatusError(504, StatusReason.TIMEOUT, text)
        case StorageFull():
            text = "the server's storage is full: delete objects, or ask the administrator to free some space"
            return StatusError(507, StatusReason.INTERNAL_ERROR, text)
        case TransactionTooLarge():
            text = f"Request entity too large: an object may have about {TRANSACTION_BYTES_MAX} bytes"
            return StatusError(413, StatusReason.REQUEST_ENTITY_TOO_LARGE, text)
        case UnknownEncryptionKey(key_id=key_id):
            text = (
                f"the server has no encryption key {key_id!r}, that sealed an object; ask the administrator to add it"
            )
            return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, text, retry_after_s=10)
        case InvalidStoreRequest():
            return bad_request(str(error))
        case _:
            text = "the server's storage does not answer; retry later"
            return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, text, retry_after_s=1)
