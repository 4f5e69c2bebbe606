"""etcd's key-value API over gRPC.

One channel per endpoint. All calls go to one of them, the *current* one, for as long as it answers; after a failure the
next one has its turn. (Members pass writes on to their leader, so it matters little which one is asked, and staying
with one keeps a process from seeing members that are at different revisions.)

A call is made only on a channel that is connected at that moment, and gRPC repeats nothing by itself. So `EtcdNotSent`
is certain, while whatever goes wrong later is `NoAnswer`, unless etcd itself has said that it refuses.

A dead peer is noticed: while calls or watches are open, HTTP/2 pings find out that it is gone, within
`KEEPALIVE_TIME` and `KEEPALIVE_TIMEOUT` together; and a member that has lost its leader ends its watches (`hasleader`)
rather than falling silent. A stream is read only when its reader asks for more: gRPC holds no more than its
flow-control window.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeVar, assert_never

import grpc
import grpc.aio
from google.protobuf.message import Message

from mainstay.env import tasks
from mainstay.store.errors import StoreAccessDenied
from mainstay.store.etcd import rpc_pb2 as rpc
from mainstay.store.etcd.access import NO_ACCESS_CONTROL, EtcdAccess, EtcdTls, read_password, read_tls
from mainstay.store.etcd.kv import (
    Compare,
    CorruptCluster,
    DeleteKey,
    EtcdDenied,
    EtcdError,
    EtcdEvent,
    EtcdNotSent,
    EtcdRejected,
    EtcdUntrusted,
    GetKey,
    KeyValue,
    NoAnswer,
    NoSpace,
    Operation,
    PutKey,
    RangeResult,
    RequestTooLarge,
    RevisionCompacted,
    RevisionInFuture,
    TooManyRequests,
    TxnResult,
    WatchResponse,
)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

CONNECT_LIMIT: Final = timedelta(seconds=3)
REQUEST_LIMIT: Final = timedelta(seconds=5)
FAILURE_LIMIT: Final = timedelta(seconds=0.5)
KEEPALIVE_TIME: Final = timedelta(seconds=10)  # etcd hangs up on clients that ping more often than every 5 seconds.
KEEPALIVE_TIMEOUT: Final = timedelta(seconds=5)
_REQUEST_LIMIT_S: Final = REQUEST_LIMIT.total_seconds()

_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", int(KEEPALIVE_TIME / timedelta(milliseconds=1))),
    ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT / timedelta(milliseconds=1))),
    # Without this, a peer that is stuck while its kernel still answers would get another minute.
    ("grpc.http2.ping_timeout_ms", int(KEEPALIVE_TIMEOUT / timedelta(milliseconds=1))),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC would otherwise wait up to two minutes before it tries again.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A repeated transaction could be done twice, and we would not know.
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Two stores in one process are two clients.
    ("grpc.use_local_subchannel_pool", 1),
)

# In gRPC's words, how TLS fails, and what to do about it. The first that matches counts.
_DISTRUST: Final = {
    "certificate has expired": "etcd's certificate has expired; renew it there",
    "CERTIFICATE_VERIFY_FAILED": "etcd's certificate is not signed by the CA in --etcd-ca; give the right one",
    "Hostname Verification": "etcd's certificate is not for this address; use one that it names, or renew it there",
    "Peer name": "etcd's certificate is not for this address; use one that it names, or renew it there",
    "TSI_DATA_CORRUPTED": "etcd rejects the client certificate; give one that its CA has signed with --etcd-cert and"
    " --etcd-key",
    "Handshake read failed": "it does not answer TLS; write http:// if it speaks plain HTTP",
}
_CLOSED: Final = "Socket closed"

_log = logging.getLogger(__name__)

_WATCH_METADATA: Final = (("hasleader", "true"),)

# What etcd says in so many words; its codes alone do not tell these apart.
_SAID: Final[dict[str, type[EtcdError]]] = {
    "etcdserver: mvcc: required revision has been compacted": RevisionCompacted,
    "etcdserver: mvcc: required revision is a future revision": RevisionInFuture,
    "etcdserver: mvcc: database space exceeded": NoSpace,
    "etcdserver: too many requests": TooManyRequests,
    "etcdserver: request is too large": RequestTooLarge,
    "etcdserver: authentication failed, invalid user ID or password": EtcdDenied,
    "etcdserver: user name is empty": EtcdDenied,
}
_LOGIN_IS_OFF: Final = "etcdserver: authentication is not enabled"
# A token that has expired, that a restarted member does not know, or from before users were changed.
_TOKEN_IS_STALE: Final = ("etcdserver: invalid auth token", "etcdserver: revision of auth store is old")
# How etcd 3.4 cancels a watch whose token is not valid: as if the user had no right to it.
_WATCH_IS_DENIED: Final = ("etcdserver: permission denied", *_TOKEN_IS_STALE)
_CODES: Final[dict[grpc.StatusCode, type[EtcdError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: EtcdRejected,
    grpc.StatusCode.FAILED_PRECONDITION: EtcdRejected,
    grpc.StatusCode.PERMISSION_DENIED: EtcdDenied,
    grpc.StatusCode.UNAUTHENTICATED: EtcdDenied,
    grpc.StatusCode.UNIMPLEMENTED: EtcdRejected,
    grpc.StatusCode.DATA_LOSS: CorruptCluster,
}


class _Endpoint:
    """One member's address, with its channel and the calls on it."""

    def __init__(self, address: str, tls: EtcdTls | None) -> None:
        self.address = address
        self.tls = tls
        if tls is None:
            self.channel = grpc.aio.insecure_channel(address, options=_CHANNEL_OPTIONS)
        else:
            credentials = grpc.ssl_channel_credentials(tls.authorities, tls.key, tls.certificate)
            self.channel = grpc.aio.secure_channel(address, credentials, options=_CHANNEL_OPTIONS)
        self.range = self.channel.unary_unary(
            "/etcdserverpb.KV/Range",
            request_serializer=rpc.RangeRequest.SerializeToString,
            response_deserializer=rpc.RangeResponse.FromString,
        )
        self.txn = self.channel.unary_unary(
            "/etcdserverpb.KV/Txn",
            request_serializer=rpc.TxnRequest.SerializeToString,
            response_deserializer=rpc.TxnResponse.FromString,
        )
        self.compact = self.channel.unary_unary(
            "/etcdserverpb.KV/Compact",
            request_serializer=rpc.CompactionRequest.SerializeToString,
            response_deserializer=rpc.CompactionResponse.FromString,
        )
        self.authenticate = self.channel.unary_unary(
            "/etcdserverpb.Auth/Authenticate",
            request_serializer=rpc.AuthenticateRequest.SerializeToString,
            response_deserializer=rpc.AuthenticateResponse.FromString,
        )
        self.watch = self.channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=rpc.WatchRequest.SerializeToString,
            response_deserializer=rpc.WatchResponse.FromString,
        )

    @property
    def is_connected(self) -> bool:
        return self.channel.get_state() is grpc.ChannelConnectivity.READY

    async def connect(self) -> bool:
        """Wait until it is connected, or until it turns out that it cannot be for now."""
        while (state := self.channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
            if state in (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN):
                return False
            await self.channel.wait_for_state_change(state)
        return True

    async def find_failure(self) -> str:
        """Why it cannot be connected, in gRPC's words: only a call tells. One that changes nothing, should it work."""
        try:
            await self.range(rpc.RangeRequest(key=b"\0", count_only=True), timeout=FAILURE_LIMIT.total_seconds())
        except grpc.aio.AioRpcError as error:
            return error.details() or error.code().name
        return ""


class GrpcEtcdKv:
    """Implements `EtcdKv` (kv.py). Make it on the loop it is used on."""

    def __init__(self, endpoints: Sequence[str], access: EtcdAccess = NO_ACCESS_CONTROL) -> None:
        """`endpoints` are the members' client addresses, each `host:port`. Raises `StoreAccessDenied`."""
        self._access = access
        tls = None if access.tls is None else read_tls(access.tls)
        self._endpoints = [_Endpoint(address, tls) for address in endpoints]
        self._current = 0
        self._closed = False
        self._token = ""
        self._logging_in = asyncio.Lock()

    async def range(
        self, key: bytes, end: bytes = b"", *, revision: int = 0, limit: int = 0, count_only: bool = False
    ) -> RangeResult:
        endpoint = await self.endpoint()
        request = rpc.RangeRequest(key=key, range_end=end, revision=revision, limit=limit, count_only=count_only)
        response = await self._call(endpoint, endpoint.range, request)
        return RangeResult([_key_value(kv) for kv in response.kvs], response.count, response.header.revision)

    async def txn(
        self, compares: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation]
    ) -> TxnResult:
        endpoint = await self.endpoint()
        request = rpc.TxnRequest(
            compare=[
                rpc.Compare(target=rpc.Compare.MOD, key=compare.key, mod_revision=compare.mod_revision)
                for compare in compares
            ],
            success=[_request_op(operation) for operation in success],
            failure=[_request_op(operation) for operation in failure],
        )
        response = await self._call(endpoint, endpoint.txn, request)
        gets = [
            _key_value(answer.response_range.kvs[0]) if answer.response_range.kvs else None
            for answer, operation in zip(response.responses, success if response.succeeded else failure, strict=True)
            if isinstance(operation, GetKey)
        ]
        return TxnResult(response.succeeded, response.header.revision, gets)

    async def compact(self, revision: int) -> None:
        endpoint = await self.endpoint()
        await self._call(endpoint, endpoint.compact, rpc.CompactionRequest(revision=revision))

    def watch(self, key: bytes, end: bytes, *, start_revision: int) -> "GrpcWatchStream":
        create = rpc.WatchCreateRequest(key=key, range_end=end, start_revision=start_revision, prev_kv=True)
        return GrpcWatchStream(self, rpc.WatchRequest(create_request=create))

    async def close(self) -> None:
        self._closed = True
        for endpoint in self._endpoints:
            # Longer than any call may take: each of them ends by itself, with an answer or its own error.
            await endpoint.channel.close(grace=_REQUEST_LIMIT_S + 1)

    async def endpoint(self) -> _Endpoint:
        """One that is connected. Raises `EtcdNotSent` if there is none."""
        if self._closed:
            raise EtcdNotSent("this client was closed")
        current = self._endpoints[self._current]
        if current.is_connected:
            return current
        for _ in self._endpoints:
            current = self._endpoints[self._current]
            try:
                async with tasks.timeout(CONNECT_LIMIT):
                    if await current.connect():
                        return current
            except TimeoutError:
                pass
            await self._take_up_certificates(current)
            self.pass_over(current)
        addresses = ", ".join(endpoint.address for endpoint in self._endpoints)
        current = self._endpoints[self._current]
        failure = await current.find_failure()
        advice = next((advice for words, advice in _DISTRUST.items() if words in failure), "")
        if advice and current.tls is not None:
            raise EtcdUntrusted(f"no connection to etcd at {addresses}: {advice} ({failure})")
        hint = "; if it speaks TLS, write https:// and give --etcd-ca" if _CLOSED in failure else ""
        raise EtcdNotSent(f"no connection to etcd at {addresses}: {failure}{hint}")

    async def _take_up_certificates(self, endpoint: _Endpoint) -> None:
        """Replace the channel if files of TLS have changed: gRPC reads them only once."""
        if self._access.tls is None:
            return
        try:
            tls = read_tls(self._access.tls)
        except StoreAccessDenied as error:
            _log.error("%s; keeping the certificates in use", error)
            return
        if tls != endpoint.tls and not self._closed and endpoint in self._endpoints:
            self._endpoints[self._endpoints.index(endpoint)] = _Endpoint(endpoint.address, tls)
            await endpoint.channel.close()

    def pass_over(self, endpoint: _Endpoint) -> None:
        """The next one's turn, unless that was already decided."""
        if endpoint.address == self._endpoints[self._current].address:
            self._current = (self._current + 1) % len(self._endpoints)

    async def _call(
        self,
        endpoint: _Endpoint,
        method: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]",
        request: RequestT,
    ) -> ResponseT:
        metadata = await self.metadata(endpoint)
        try:
            return await method(request, timeout=_REQUEST_LIMIT_S, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            if not metadata or error.details() not in _TOKEN_IS_STALE:
                raise self._failed(error, endpoint) from None
        # Refused before it was taken on, so it may be repeated.
        self.forget(metadata)
        try:
            return await method(request, timeout=_REQUEST_LIMIT_S, metadata=await self.metadata(endpoint))
        except grpc.aio.AioRpcError as error:
            raise self._failed(error, endpoint) from None

    def _failed(self, error: grpc.aio.AioRpcError, endpoint: _Endpoint) -> EtcdError:
        failure = _failure(error, endpoint)
        if isinstance(failure, NoAnswer):
            self.pass_over(endpoint)
        return failure

    async def metadata(self, endpoint: _Endpoint) -> tuple[tuple[str, str], ...]:
        """What to send with a call: the token of the user, if there is one. Raises `EtcdError`."""
        login = self._access.login
        if login is None:
            return ()
        async with self._logging_in:  # One login for all calls that wait for it.
            if not self._token:
                try:
                    request = rpc.AuthenticateRequest(name=login.user, password=read_password(login))
                    response = await endpoint.authenticate(request, timeout=_REQUEST_LIMIT_S)
                except StoreAccessDenied as error:
                    raise EtcdDenied(str(error)) from None
                except grpc.aio.AioRpcError as error:
                    if error.details() == _LOGIN_IS_OFF:
                        _log.warning("etcd has authentication turned off: anyone who reaches it can read and write")
                        return ()
                    if isinstance(failure := self._failed(error, endpoint), NoAnswer):
                        raise EtcdNotSent(str(failure)) from None  # The call itself was not sent yet.
                    raise failure from None
                self._token = response.token
            return (("token", self._token),)

    def forget(self, metadata: Sequence[tuple[str, str]]) -> None:
        """etcd does not accept this token any more. Another call may have renewed it already."""
        if ("token", self._token) in metadata:
            self._token = ""


class GrpcWatchStream:
    """Implements `WatchStream` (kv.py)."""

    def __init__(self, kv: GrpcEtcdKv, request: rpc.WatchRequest) -> None:
        self._kv = kv
        self._request = request
        self._endpoint: _Endpoint | None = None
        self._metadata: tuple[tuple[str, str], ...] = ()
        self._call: grpc.aio.StreamStreamCall[Message, rpc.WatchResponse] | None = None

    async def next(self) -> WatchResponse:
        endpoint = self._endpoint
        if endpoint is None:
            self._endpoint = endpoint = await self._kv.endpoint()
        try:
            if self._call is None:
                self._metadata = await self._kv.metadata(endpoint)
                self._call = endpoint.watch(metadata=(*_WATCH_METADATA, *self._metadata))
                await self._call.write(self._request)
            message = await self._call.read()
        except grpc.aio.AioRpcError as error:
            self._kv.pass_over(endpoint)
            raise _failure(error, endpoint) from None
        except asyncio.InvalidStateError as error:  # It broke while we were not looking.
            self._kv.pass_over(endpoint)
            raise NoAnswer(f"{endpoint.address} ended the watch: {error}") from None
        if not isinstance(message, rpc.WatchResponse):
            self._kv.pass_over(endpoint)
            raise NoAnswer(f"{endpoint.address} ended the watch")
        if message.canceled and message.cancel_reason in _WATCH_IS_DENIED:
            self._kv.forget(self._metadata)
        return WatchResponse(
            message.header.revision,
            message.created,
            message.canceled,
            message.compact_revision,
            [
                EtcdEvent(
                    event.type == rpc.Event.DELETE,
                    _key_value(event.kv),
                    _key_value(event.prev_kv) if event.HasField("prev_kv") else None,
                )
                for event in message.events
            ],
        )

    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()


def _key_value(kv: rpc.KeyValue) -> KeyValue:
    return KeyValue(kv.key, kv.value, kv.create_revision, kv.mod_revision, kv.version)


def _request_op(operation: Operation) -> rpc.RequestOp:
    match operation:
        case PutKey(key=key, value=value):
            return rpc.RequestOp(request_put=rpc.PutRequest(key=key, value=value))
        case DeleteKey(key=key):
            return rpc.RequestOp(request_delete_range=rpc.DeleteRangeRequest(key=key))
        case GetKey(key=key):
            return rpc.RequestOp(request_range=rpc.RangeRequest(key=key))
        case _:
            assert_never(operation)


def _failure(error: grpc.aio.AioRpcError, endpoint: _Endpoint) -> EtcdError:
    """What a failed call means. Only what etcd itself refused is certain not to have happened."""
    details = error.details() or ""
    kind = _SAID.get(details) or _CODES.get(error.code(), NoAnswer)
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "received message larger than max" in details:
        kind = RequestTooLarge  # So large that etcd's gRPC layer did not even take it in.
    return kind(f"{endpoint.address} {error.code().name}: {details}")
