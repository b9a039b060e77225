"""Calls of Compute Engine and the operations that they start. Every error is classified, and every wait goes to the access's endpoint.

Google's own `operation.result()` does neither: it always asks googleapis.com, because its client is built from the credentials alone
(docs/sources/emulators.md §C), and it raises by HTTP status, where only the codes of the operation tell a stock-out from an outage.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import tenacity
from google.api_core import exceptions, retry

from provision.clouds.gcp import changes
from provision.clouds.gcp.access import GcpAccess
from provision.clouds.gcp.answers import last
from provision.clouds.gcp.client import client, project_of, session
from provision.clouds.gcp.errors import LOGIN, NotReadyError, cloud_errors, in_place, of_operation
from provision.clouds.gcp.shapes import GoogleAnswer
from provision.clouds.received import AGAIN, Received, check_shape
from provision.errors import CloudError, CloudUnreachableError, CredentialsMissingError, QuotaExceededError, ThrottledError
from provision.structs import Struct

T = TypeVar("T")
# `wait` answers when the operation has ended, and after two minutes at the latest (operations.wait in the reference). Our own time-out is
# shorter; a wait that it cuts off is repeated.
_WAIT_S: Final = 60.0
_WAITS: Final = 5
_WAITERS: Final = {"zone": "ZoneOperationsClient", "region": "RegionOperationsClient", "": "GlobalOperationsClient"}
# The hosts of the APIs that are asked over plain HTTP: `rootUrl` of their discovery documents.
_HOSTS: Final = {
    "cloudbilling": "https://cloudbilling.googleapis.com",
    "serviceusage": "https://serviceusage.googleapis.com",
    "oslogin": "https://oslogin.googleapis.com",
    "cloudresourcemanager": "https://cloudresourcemanager.googleapis.com",
    "oauth2": "https://www.googleapis.com",
}
_REFUSED: Final = 400
MOST_PAGES: Final = 200  # of a list: 100,000 entries of Compute Engine
# "For a brief period when certain operations are performed on them", says Terraform of subnetworks, and asks again as well
# (GoogleCloudPlatform/magic-modules#5418).
_READY_S: Final = 30.0
_ASK_AGAIN: Final = (CloudUnreachableError, ThrottledError)


@contextlib.contextmanager
def _reading(action: str, where: str) -> Iterator[None]:
    """`cloud_errors` for a read. Its quota is one of calls, not of machines, so a launch must not go elsewhere because of it."""
    try:
        with cloud_errors(action, where):
            yield
    except QuotaExceededError as error:
        msg = f"GCP asks for slower calls of {in_place(action, where)}"
        hint = "wait a minute and run the same command again; it goes on where it stopped"
        raise ThrottledError(msg, hint=hint, detail=error.detail) from error


def _scope(operation: Any) -> tuple[str, str]:
    """(`zone`, its name), (`region`, its name) or two empty strings, as the operation says."""
    if operation.zone:
        return "zone", last(operation.zone)
    return ("region", last(operation.region)) if operation.region else ("", "")


def _again(timeout_s: float) -> retry.Retry:
    """Repeat a read at a 503 as Google's client would, but no longer than one call may take; Google's own limit is ten minutes."""
    lost = retry.if_exception_type(exceptions.ServiceUnavailable, exceptions.DeadlineExceeded)
    return retry.Retry(predicate=lost, initial=0.1, maximum=5, multiplier=1.5, timeout=timeout_s)


def _when_ready(act: Callable[[], T]) -> T:
    """Act again for a while where it was refused, and did nothing, because somebody else is changing what it is about."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(NotReadyError),
        wait=tenacity.wait_exponential(multiplier=0.1, max=5),
        stop=tenacity.stop_after_delay(_READY_S),
        reraise=True,
    )(act)


class GcpProjectApi(Struct):
    """A project of GCP, with the credentials that speak to it."""

    access: GcpAccess

    @property
    def project(self) -> str:
        """Whose machines they are."""
        return project_of(self.access)

    def call(self, kind: str, method: str, action: str, *, where: str = "", **request: Any) -> Any:
        """Make one call; a call that makes something is sent again only where it was refused because something was not ready.

        Args:
            kind: the client, such as `Instances`.
            method: of the client; those that start an operation end with `_unary`.
            action: the permission that it needs.
            where: zone or region, for the message of an error.
            request: the fields of the request besides the project.

        Raises:
            CloudError: what GCP said instead.
        """

        def send(again: retry.Retry | None) -> Any:
            act = getattr(client(f"{kind}Client", self.access), method)
            return act(request={"project": self.project, **request}, timeout=self.access.timeout_s, retry=again)

        if not method.endswith("_unary"):
            with _reading(action, where):
                return send(_again(self.access.timeout_s))

        def make() -> Any:
            with cloud_errors(action, where), changes.telling(action, where, str(request.get("request_id", ""))) as tell:
                answer = send(None)
                tell(answer)
                return answer

        return _when_ready(make)

    def ask(
        self, service: str, verb: str, path: str, action: str, *, body: dict[str, Any] | None = None, query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Make one call of one of Google's other APIs, whose answer is a JSON object. It is not repeated.

        Args:
            service: one of `_HOSTS`.
            verb: of HTTP.
            path: on that host.
            action: the permission that it needs, or the method where it needs none.
            body: what is sent with it.
            query: the parameters behind the path.

        Raises:
            CloudError: what Google said instead.
        """
        with cloud_errors(action):
            url = f"{self.access.endpoint_url or _HOSTS[service]}{path}"
            send = session(self.access).request
            reply = send(verb, url, json=body, params=query, timeout=self.access.timeout_s)  # type: ignore[no-untyped-call]  # google-auth is not typed
            if reply.status_code >= _REFUSED:
                raise exceptions.from_http_response(reply)  # type: ignore[no-untyped-call]  # nor is this
            answer = Received(reply.json(object_hook=Received))
        check_shape(answer, GoogleAnswer)
        return answer

    def lacking(self, wanted: Sequence[str]) -> list[str]:
        """Those of the permissions that the caller does not have in the project; asking needs none."""
        path = f"/v3/projects/{self.project}:testIamPermissions"
        action = "resourcemanager.projects.testIamPermissions"
        answer = self.ask("cloudresourcemanager", "POST", path, action, body={"permissions": list(wanted)})
        return sorted(set(wanted) - set(answer.get("permissions", [])))

    def caller(self) -> str:
        """The address of the account that asks: a service account's own, or what Google says of a person's token.

        Raises:
            CredentialsMissingError: Google does not say it.
        """
        own = str(getattr(session(self.access).credentials, "service_account_email", ""))
        email = own if "@" in own else str(self.ask("oauth2", "GET", "/oauth2/v2/userinfo", "oauth2.userinfo.get").get("email", ""))
        if not email:
            msg = "Google does not say whose credentials these are"
            raise CredentialsMissingError(msg, hint=LOGIN)
        return email

    def pages(self, kind: str, method: str, action: str, **request: Any) -> list[Any]:
        """All entries of a list call, however many pages they take; with `aggregated_list` the (scope, list) pairs.

        Raises:
            CloudError: what GCP said instead.
            CloudUnreachableError: the answers name a next page each time, and are none of the cloud's.
        """
        entries: list[Any] = []
        with cloud_errors(action):
            for page in itertools.islice(self.call(kind, method, action, **request).pages, MOST_PAGES):
                rows = page.managed_instances if method == "list_managed_instances" else page.items
                entries += rows.items() if method == "aggregated_list" else rows
                if not page.next_page_token:
                    return entries
        msg = f"the list of {action} has no end"
        raise CloudUnreachableError(msg, hint=AGAIN)

    def end_of(self, operation: Any, action: str, *, timeout_s: float) -> Any:
        """Wait for the end of an operation, whatever it came to.

        Raises:
            CloudUnreachableError: it still runs when the time is up, or its answers are lost.
        """
        scope, where = _scope(operation)
        until = time.monotonic() + timeout_s
        last_error: CloudError | None = None
        while operation.status.name != "DONE":
            if time.monotonic() >= until:
                msg = f"{action} is still under way after {timeout_s:g} s ({operation.name})"
                raise CloudUnreachableError(msg, hint="run the same command again; it goes on where it stopped") from last_error
            try:
                operation = self._wait(scope, where, operation.name, until)
            except _ASK_AGAIN as error:
                last_error = error
                if time.monotonic() < until:
                    raise
        return operation

    def success_of(self, operation: Any, action: str, *, timeout_s: float) -> None:
        """Wait for the end of an operation.

        Raises:
            CloudError: what its error codes mean.
        """
        end = self.end_of(operation, action, timeout_s=timeout_s)
        if end.error.errors:
            raise of_operation(end.error.errors, end.http_error_status_code, in_place(action, _scope(end)[1]))

    def _wait(self, scope: str, where: str, name: str, until: float) -> Any:
        """The operation after a while. When an answer is lost, it asks again a few times, since asking changes nothing."""

        def ask() -> Any:
            remaining = min(max(until - time.monotonic(), 0.1), _WAIT_S)
            with _reading(f"compute.{scope or 'global'}Operations.get", where):
                request = {"project": self.project, "operation": name, **({scope: where} if scope else {})}
                return client(_WAITERS[scope], self.access).wait(request=request, timeout=remaining, retry=None)

        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(_ASK_AGAIN),
            wait=tenacity.wait_exponential(multiplier=0.2, max=5),
            stop=lambda state: state.attempt_number >= _WAITS or time.monotonic() >= until,
            reraise=True,
        )(ask)

    def run(self, kind: str, method: str, action: str, *, timeout_s: float, where: str = "", **request: Any) -> None:
        """Make a call that starts an operation, and wait until the operation has succeeded."""
        _when_ready(lambda: self.success_of(self.call(kind, method, action, where=where, **request), action, timeout_s=timeout_s))

    def causes(self, operation: Any) -> Sequence[Any]:
        """The errors of the operations that a bulk insert started; its own error only says that it fell short.

        They only explain another error, so where they cannot be read there are none.
        """
        group = operation.operation_group_id
        if not group:
            return []
        query = f'operationGroupId="{group}"'
        try:
            scopes = self.pages("GlobalOperations", "aggregated_list", "compute.globalOperations.list", filter=query)
        except CloudError:
            return []
        return [error for _, scoped in scopes for member in scoped.operations for error in member.error.errors]
