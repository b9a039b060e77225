"""The one place through which requests go: whose token, to which host, and nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from provision.clouds.digitalocean.access import DigitalOceanAccess, access_from
from provision.clouds.digitalocean.api import OPERATIONS, DigitalOceanApi
from provision.clouds.digitalocean.client import send
from provision.errors import CloudUnreachableError, CredentialsMissingError
from provision.structs import replace


class Endpoint:
    """A server that writes down what it is sent, and answers what it is told to."""

    def __init__(self) -> None:
        self.seen: list[Request] = []
        self.answers: list[Response] = []
        self.url = ""

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        request = Request(environ)
        request.get_data()
        self.seen.append(request)
        answer = self.answers.pop(0) if self.answers else Response("{}", content_type="application/json")
        return answer(environ, start)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    server = make_server("127.0.0.1", 0, made)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("variable", ["DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"])
def test_the_token_of_the_environment_goes_into_the_header(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "dop_v1_x")
    send(DigitalOceanAccess(endpoint_url=endpoint.url), "GET", "account")
    (request,) = endpoint.seen
    assert (request.path, request.headers["Authorization"]) == ("/v2/account", "Bearer dop_v1_x")


def test_without_a_token_nothing_is_sent(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(CredentialsMissingError, match="token") as caught:
        send(DigitalOceanAccess(endpoint_url=endpoint.url), "GET", "account")
    assert "DIGITALOCEAN_TOKEN" in caught.value.hint
    assert endpoint.seen == []


def test_the_token_is_not_shown_with_the_access() -> None:
    assert "secret" not in repr(DigitalOceanAccess(token="secret"))


def test_the_token_follows_no_redirection(endpoint: Endpoint) -> None:
    endpoint.answers = [Response("", 302, headers={"Location": f"{endpoint.url}/elsewhere"})]
    answer = send(access_from({"token": "x", "endpoint_url": endpoint.url}), "GET", "account")
    assert (answer.status, len(endpoint.seen)) == (302, 1)


@pytest.mark.parametrize("url", ["http://api.digitalocean.com", "http://127.0.0.1.example.org:80", "ftp://127.0.0.1:1"])
def test_the_token_does_not_go_out_in_the_clear(url: str) -> None:
    with pytest.raises(CloudUnreachableError, match="not HTTPS"):
        send(DigitalOceanAccess(token="x", endpoint_url=url), "GET", "account")


def test_an_accepted_call_whose_answer_is_no_json_counts_as_unanswered(endpoint: Endpoint) -> None:
    endpoint.answers = [Response("<html>", 200)]
    with pytest.raises(ValueError, match="Expecting value"):
        send(DigitalOceanAccess(token="x", endpoint_url=endpoint.url), "GET", "account")


def page(number: int, *, last: bool) -> Response:
    pages: dict[str, Any] = {} if last else {"next": "https://elsewhere.example/v2/tags?page=9"}
    return Response(json.dumps({"tags": [{"name": f"t{number}"}], "links": {"pages": pages}}), content_type="application/json")


def test_a_list_is_read_page_by_page_and_no_address_of_an_answer_is_followed(endpoint: Endpoint) -> None:
    endpoint.answers = [page(1, last=False), page(2, last=True)]
    api = DigitalOceanApi(DigitalOceanAccess(token="x", endpoint_url=endpoint.url))
    assert [raw["name"] for raw in api.pages("tags_list", "tags")] == ["t1", "t2"]
    assert [dict(request.args) for request in endpoint.seen] == [{"per_page": "200", "page": "1"}, {"per_page": "200", "page": "2"}]


def test_a_read_is_asked_again_and_a_change_never(endpoint: Endpoint) -> None:
    api = DigitalOceanApi(replace(DigitalOceanAccess(token="x"), endpoint_url=endpoint.url))
    for action, sent in (("account_get", 3), ("tags_create", 1)):
        endpoint.seen, endpoint.answers = [], [Response("", 502) for _ in range(9)]
        with pytest.raises(CloudUnreachableError):
            api.call(action)
        assert len(endpoint.seen) == sent


def test_every_operation_is_called_as_in_the_document() -> None:
    assert all(verb in {"GET", "POST", "PUT", "DELETE"} and scopes for verb, _, scopes in OPERATIONS.values())
