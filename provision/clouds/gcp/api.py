"""Calls, and the operations that they start: each call classified, each operation waited for at the endpoint that was configured.

Google's own `operation.result()` asks a client that its transport builds with credentials alone, so that it goes to googleapis.com
whatever the endpoint (shared/facts/emulators.md §C); and it raises by HTTP status, where only the codes of the operation tell a stock-out
from an outage.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import tenacity

from provision.clouds.gcp import sdk
from provision.clouds.gcp.client import GcpAccess, client, project_of
from provision.clouds.gcp.errors import classified, of_operation
from provision.errors import CloudError, CloudUnreachableError, QuotaExceededError, ThrottledError

T = TypeVar("T")
U = TypeVar("U")

# `wait` answers when the operation is done and after two minutes at the latest (operations.wait in the reference); our own time-out is
# shorter, and a wait that it cuts off is asked again.
_WAIT_S: Final = 60.0
_WAITS: Final = 5
_AT_ONCE: Final = 16
_WAITERS: Final = {"zone": "ZoneOperationsClient", "region": "RegionOperationsClient", "": "GlobalOperationsClient"}
_ASK_AGAIN: Final = (CloudUnreachableError, ThrottledError)


def last(path: str) -> str:
    """The last part of a path or URL, which is the name of what it means."""
    return path.rpartition("/")[2]


def asked_in(action: str, where: str) -> str:
    """An action and where, as a sentence has it."""
    return f"{action} in {where}" if where else action


@contextlib.contextmanager
def _reading(action: str, where: str) -> Iterator[None]:
    """`classified` for a read, whose quota is one of calls: it says nothing of machines, and a launch must not go elsewhere for it."""
    try:
        with classified(action, where):
            yield
    except QuotaExceededError as error:
        msg = f"GCP asks for slower calls of {asked_in(action, where)}"
        raise ThrottledError(
            msg, hint="wait a minute and run the same command again; it goes on where it stopped", detail=error.detail
        ) from error


def _scope(operation: Any) -> tuple[str, str]:
    """(`zone`, its name), (`region`, its name) or two empty strings, as the operation says."""
    if operation.zone:
        return "zone", last(operation.zone)
    return ("region", last(operation.region)) if operation.region else ("", "")


def at_once(work: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """The results of the work on each item, all at the same time, in their order; all have ended before an error of one is raised."""
    todo = list(items)
    if len(todo) < 2:  # noqa: PLR2004 - a thread is for the second
        return [work(item) for item in todo]
    with ThreadPoolExecutor(max_workers=min(len(todo), _AT_ONCE), thread_name_prefix="gcp") as pool:
        return list(pool.map(work, todo))


def poll(ask: Callable[[], T], enough: Callable[[T], bool], *, timeout_s: float, longest_s: float = 5.0, first_s: float = 0.1) -> T:
    """Ask at doubling intervals until the answer is enough or time is up; returns the last answer."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda answer: not enough(answer)),
        wait=tenacity.wait_exponential(multiplier=first_s, max=longest_s),
        stop=tenacity.stop_after_delay(timeout_s),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )(ask)


def _again(timeout_s: float) -> Any:
    """How a read is repeated at a 503: as Google's client would, and no longer than one call may take, where its default is ten minutes."""
    with sdk.importing:
        from google.api_core import exceptions, retry  # noqa: PLC0415 - as everything of Google's

    lost = retry.if_exception_type(exceptions.ServiceUnavailable, exceptions.DeadlineExceeded)
    return retry.Retry(predicate=lost, initial=0.1, maximum=5, multiplier=1.5, timeout=timeout_s)


@dataclass(frozen=True, slots=True)
class GcpApi:
    """A project of GCP."""

    access: GcpAccess

    @property
    def project(self) -> str:
        """Whose machines they are."""
        return project_of(self.access)

    def call(self, kind: str, method: str, action: str, *, where: str = "", **request: Any) -> Any:
        """One call, sent once if it makes something.

        Args:
            kind: the client, such as `Instances`.
            method: of the client; those that start an operation end with `_unary`.
            action: the permission that it needs.
            where: zone or region, for the message of an error.
            request: the fields of the request besides the project.

        Raises:
            CloudError: what GCP said instead.
        """
        makes = method.endswith("_unary")  # starts an operation
        with classified(action, where) if makes else _reading(action, where):
            asked = getattr(client(f"{kind}Client", self.access), method)
            again = None if makes else _again(self.access.timeout_s)
            return asked(request={"project": self.project, **request}, timeout=self.access.timeout_s, retry=again)

    def pages(self, kind: str, method: str, action: str, **request: Any) -> list[Any]:
        """All that a list call finds, whatever the number of its pages; with `aggregated_list` the (scope, list) pairs."""
        with classified(action):
            return list(self.call(kind, method, action, **request))

    def ended(self, operation: Any, action: str, *, timeout_s: float) -> Any:
        """An operation when it is done, whatever came of it.

        Raises:
            CloudUnreachableError: it still runs when time is up, or its answers are lost.
        """
        scope, where = _scope(operation)
        until = time.monotonic() + timeout_s
        lost: CloudError | None = None
        while operation.status.name != "DONE":
            if time.monotonic() >= until:
                msg = f"{action} is still under way after {timeout_s:g} s ({operation.name})"
                raise CloudUnreachableError(msg, hint="run the same command again; it goes on where it stopped") from lost
            try:
                operation = self._waited(scope, where, operation.name, until)
            except _ASK_AGAIN as error:
                lost = error
                if time.monotonic() < until:
                    raise
        return operation

    def settle(self, operation: Any, action: str, *, timeout_s: float) -> Any:
        """An operation when it is done.

        Raises:
            CloudError: what its error codes mean.
        """
        done = self.ended(operation, action, timeout_s=timeout_s)
        if done.error.errors:
            raise of_operation(done.error.errors, done.http_error_status_code, asked_in(action, _scope(done)[1]))
        return done

    def _waited(self, scope: str, where: str, name: str, until: float) -> Any:
        """The operation after a while; asked again a few times when the answer is lost, since asking changes nothing."""

        def ask() -> Any:
            left = min(max(until - time.monotonic(), 0.1), _WAIT_S)
            with _reading(f"compute.{scope or 'global'}Operations.get", where):
                request = {"project": self.project, "operation": name, **({scope: where} if scope else {})}
                return client(_WAITERS[scope], self.access).wait(request=request, timeout=left, retry=None)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_ASK_AGAIN),
            wait=tenacity.wait_exponential(multiplier=0.2, max=5),
            stop=lambda state: state.attempt_number >= _WAITS or time.monotonic() >= until,
            reraise=True,
        )(ask)

    def done(self, kind: str, method: str, action: str, *, timeout_s: float, where: str = "", **request: Any) -> Any:
        """A call that starts an operation, and its end."""
        return self.settle(self.call(kind, method, action, where=where, **request), action, timeout_s=timeout_s)

    def cause(self, operation: Any) -> Sequence[Any]:
        """The errors of the operations that a bulk insert started, whose own error says no more than that it fell short.

        An answer that explains an error is worth asking for, and is no reason to fail in another way: none where it cannot be had.
        """
        group = operation.operation_group_id
        if not group:
            return []
        try:
            listed = self.pages(
                "GlobalOperations", "aggregated_list", "compute.globalOperations.list", filter=f'operationGroupId="{group}"'
            )
        except CloudError:
            return []
        return [error for _, scoped in listed for member in scoped.operations for error in member.error.errors]
