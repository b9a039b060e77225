"""Faults on the wire: rules that make the embedded cloud fail as real ones do, by action, region and count."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Literal, get_args

from werkzeug import Response

from provision.structs import MutableStruct, asdict, field

Kind = Literal["error", "html", "drop", "lost", "delay", "operation"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_ON_THE_WIRE: Final = ("error", "html", "drop", "lost", "delay")


class Fault(MutableStruct):
    """One rule."""

    # `error` answers with an error of the service; `html` with a page, as a broken balancer does; `drop` closes the connection unanswered;
    # `lost` executes the call and then closes the connection; `delay` answers late; `operation` accepts the call and lets the operation
    # fail that it starts, at clouds that have operations
    kind: Kind
    action: str = ".*"  # a regular expression for the whole action, such as `RunInstances`, `Describe.*` or `compute.instances.insert`
    region: str = ".*"  # a regular expression for the whole region code, or what the call log has in its place: a zone, or `global`
    params: dict[str, str] = field(default_factory=dict)  # request parameters that must be equal
    count: int = 1_000_000  # how many more calls it applies to
    # code, message, http: of an `error` or an `operation`
    code: str = "InternalError"
    message: str = ""
    http: int = 400
    # In the cloud's JSON: of an `operation`, or of an `error` of GCP, which then has no other reason
    details: list[dict[str, Any]] = field(default_factory=list)
    delay_s: float = 0.0  # seconds before anything else happens
    skip: int = 0  # how many matching calls pass before it applies
    # seconds before the connection is closed, of a `drop` or a `lost`: time to kill a client that waits for its answer
    after_s: float = 0.0
    held: bool = False  # set by the embedded cloud when those seconds begin

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            msg = f"a fault is one of {', '.join(KINDS)}, not {self.kind!r}"
            raise ValueError(msg)
        for pattern in (self.action, self.region):
            re.compile(pattern)

    def applies(self, action: str, region: str, params: dict[str, str]) -> bool:
        """Whether the rule still counts and matches the call."""
        if self.count <= 0 or any(params.get(key) != value for key, value in self.params.items()):
            return False
        return bool(re.fullmatch(self.action, action) and re.fullmatch(self.region, region))


class Faults:
    """The rules in force; the first that applies is used and counted down."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._lock = threading.Lock()

    def replace(self, rules: Iterable[dict[str, Any]]) -> None:
        """Put these rules in force, and no others; if one of them is not a rule, none is taken."""
        fresh = [Fault(**rule) for rule in rules]
        with self._lock:
            self._rules = fresh

    def as_data(self) -> list[dict[str, Any]]:
        """The rules as data, with what is left of their counts."""
        with self._lock:
            return [asdict(rule) for rule in self._rules]

    def next_for(self, action: str, region: str, params: dict[str, str], kinds: Collection[str] = _ON_THE_WIRE) -> Fault | None:
        """The rule of one of these kinds for a call, counted down, or None."""
        with self._lock:
            for rule in self._rules:
                if rule.kind in kinds and rule.applies(action, region, params):
                    if rule.skip:
                        rule.skip -= 1
                        continue
                    rule.count -= 1
                    return rule
        return None


def strike(fault: Fault, environ: dict[str, Any], carry_out: Callable[[], Response], refuse: Callable[[], Response]) -> Response:
    """The answer to a call that meets a fault: `carry_out` knows of no fault, `refuse` has the cloud's form of an `error` or `operation`.

    Raises:
        ConnectionAbortedError: the connection was closed, so the server stops handling the request.
    """
    time.sleep(fault.delay_s)
    match fault.kind:
        case "html":
            return Response("<html><body><h1>502 Bad Gateway</h1></body></html>", 502, mimetype="text/html")
        case "error" | "operation":
            return refuse()
        case "delay":
            return carry_out()
        case "lost":
            carry_out()
    if fault.after_s:
        fault.held = True
        time.sleep(fault.after_s)
    connection: socket.socket = environ["werkzeug.socket"]
    with contextlib.suppress(OSError):  # the client may be gone
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
    raise ConnectionAbortedError
