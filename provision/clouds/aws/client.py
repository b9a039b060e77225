"""boto3 clients with everything explicit: retries, time-outs, credentials, endpoint."""

import datetime as dt
import functools
import io
import threading
from typing import Any, Final

import boto3
import botocore.session
from botocore import parsers
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from provision.clouds.aws import changes
from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.errors import NotOfAwsError
from provision.clouds.received import Received

_ERRORS: Final = 301  # from this status on botocore parses an error
_SERVER_ERRORS: Final = 500
_IDS: Final = ("x-amzn-requestid", "x-amz-request-id")  # headers that AWS names a request with
_BEGINNING: Final = 500  # bytes of a body, in which its root is
_TYPES: Final[dict[str, Any]] = {
    "structure": dict,
    "list": list,
    "map": dict,
    "string": str,
    "boolean": bool,
    "integer": int,
    "long": int,
    "float": int | float,
    "double": int | float,
    "timestamp": dt.datetime,
}
_LOCK: Final = threading.Lock()  # boto3's sessions are not thread-safe; the clients that they make are


def client(service: str, region: str, access: AwsAccess, *, retried: bool = True) -> Any:
    """A client of one service in one region; the same one each time.

    Args:
        service: as boto3 calls it, such as `ec2`.
        region: region code.
        access: whose AWS.
        retried: whether botocore may send a call again. A call that makes something must be sent once: we act on its answer, and repeat
            it under the same token if the answer is lost. Otherwise botocore would silently repeat EC2's "no capacity", an HTTP 500
            (docs/sources/emulators.md §A, fault table).
    """
    with _LOCK:
        return _client(service, region, access, retried)


@functools.cache
def _client(service: str, region: str, access: AwsAccess, retried: bool) -> Any:  # noqa: FBT001 - a key of the cache
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4 if retried else 1},
        connect_timeout=min(10.0, access.timeout_s),
        read_timeout=access.timeout_s,
        user_agent_appid="gpuprov",
        max_pool_connections=10,
    )
    made = _session().client(
        service,
        region_name=region,
        endpoint_url=access.endpoint_url,
        aws_access_key_id=access.access_key_id,
        aws_secret_access_key=access.secret_access_key,
        config=config,
    )
    made.meta.events.register("before-parse", _only_awss)
    changes.watch(made.meta.events, access, client)
    return made


@functools.cache
def _session() -> boto3.Session:
    """One session for all clients, so that they share what it has read of botocore's data."""
    session = botocore.session.get_session()
    session.register_component("response_parser_factory", _Parsers())
    return boto3.Session(botocore_session=session)


class _Parsers(parsers.ResponseParserFactory):  # type: ignore[misc]  # botocore is not typed
    """botocore's parsers. What they take for an answer that AWS never gave, such as a portal's page, is none."""

    def create_parser(self, protocol_name: str) -> Any:
        """The parser of a protocol."""
        parser = super().create_parser(protocol_name)
        parser.parse = functools.partial(_parsed, parser.parse)
        return parser


def _parsed(parse: Any, response: dict[str, Any], shape: Any) -> dict[str, Any]:
    """What a response says, as its shape describes it.

    Raises:
        NotOfAwsError: it cannot be parsed, a value is of another type, or an error has no code of AWS's.
    """
    status = response["status_code"]
    try:
        parsed: dict[str, Any] = parse(response, shape)
        if status < _ERRORS:
            whole: dict[str, Any] = _received(parsed, shape) if shape else parsed
            return whole
        modeled = shape is not None and shape.metadata.get("exception")  # its code was parsed before
        code = "" if modeled else parsed["Error"]["Code"]
    except (parsers.ResponseParserError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise NotOfAwsError(what=f"{type(error).__name__}: {error}"[:300]) from error
    # Where a body says nothing botocore puts the status in the place of a code. S3 answers HEAD without a body, under an id of its own.
    headed = not response["body"] and any(name in response["headers"] for name in _IDS)
    if not modeled and not headed and (not code or (code == str(status) and status < _SERVER_ERRORS)):
        raise NotOfAwsError(what=f"HTTP {status} without a code")
    return parsed


def _only_awss(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
    """A handler for each response: AWS's own has the call's name around its XML, or the request's id in its headers.

    Raises:
        NotOfAwsError: it has neither.
    """
    if response_dict["status_code"] >= _ERRORS:
        return
    if operation_model.service_model.resolved_protocol in {"ec2", "query"}:
        own = f"<{operation_model.name}Response".encode() in response_dict["body"][:_BEGINNING]
    else:
        own = any(name in response_dict["headers"] for name in _IDS)
    if not own:
        raise NotOfAwsError(what=f"HTTP {response_dict['status_code']} without AWS's name of the call")


def _received(value: Any, shape: Any) -> Any:
    """A value of an answer, whose objects say what they lack."""
    if not isinstance(value, _TYPES.get(shape.type_name, object)):
        msg = f"{shape.name} is not a {shape.type_name}"
        raise TypeError(msg)
    if shape.type_name == "structure":
        return Received({k: _received(v, shape.members[k]) if k in shape.members else v for k, v in value.items()})
    if shape.type_name == "list":
        return [_received(each, shape.member) for each in value]
    return value


class _Raw(io.BytesIO):
    """A body that botocore reads as it reads one of the network."""

    def stream(self, **_: Any) -> Any:
        """Everything at once."""
        yield self.read()


def own_answer(url: str, status: int, headers: dict[str, str], body: bytes) -> AWSResponse:
    """An answer that did not come over the network, for a handler of botocore's event `before-send`."""
    return AWSResponse(url, status, headers, _Raw(body))
