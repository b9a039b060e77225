"""Be gpuprov, and write each call to a cloud with its answer.

    python -m tests.cloud.recorded --transcript FILE --step NAME -- COMMAND…

The libraries are watched where they send: botocore by its events, all others in the adapter of requests. A line of JSON is whole or is not
there, because each is one write to a file that is only appended to.
"""

import argparse
import datetime as dt
import functools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import botocore.session
import requests.adapters

from provision.cli import main as gpuprov
from provision.clouds.aws.data import aws
from tests.cloud import questions, shapes, things
from tests.cloud.redact import Redactor, secrets_here

_MAX_ANSWER: Final = 64_000
_FIRST_ERROR: Final = 400
_LOCAL = threading.local()


class Transcript:
    """The file, and the step whose calls are written."""

    def __init__(self, path: Path, step: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._step = step
        project = os.environ.get("GOOGLE_CLOUD_PROJECT", "")
        self._redactor = Redactor(secrets_here(), _publishers(), [project] if project else [])

    def write(self, operation: str, request: Any, answer: Any, *, status: int, code: str, request_id: bool, seconds: float) -> None:
        """Write a call with its answer; `status` is 0 where there was none."""
        answer = shapes.with_consoles(answer)
        seen = json.dumps(self._redactor.value(answer), default=str)
        record = {
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            "step": self._step,
            "operation": operation,
            "request": self._redactor.value(request),
            "status": status,
            "code": code,
            "request_id": request_id,
            "seconds": round(seconds, 4),
            "fields": sorted({self._redactor.text(each) for each in shapes.fields(answer)}),
            "words": sorted(set(shapes.words(answer))),
            "machines": sorted(set(shapes.machines(answer))),
            "consoles": list(shapes.consoles(answer)),
            "answer": json.loads(seen) if len(seen) <= _MAX_ANSWER else f"{len(seen)} characters, left out",
        }
        os.write(self._file, (json.dumps(record, default=str) + "\n").encode())


def _publishers() -> set[str]:
    """The accounts that publish images; they are no secret."""
    return {image.owner for image in aws().images if image.owner}


def watch_botocore(transcript: Transcript) -> None:
    """Write the calls of every client of botocore, each try by itself."""
    create = botocore.session.Session.create_client

    def asked(params: dict[str, Any], **_: Any) -> None:
        _LOCAL.params = dict(params)

    def sends(**_: Any) -> None:
        _LOCAL.begun = time.monotonic()

    def answered(event_name: str, parsed_response: dict[str, Any] | None, exception: Exception | None, **_: Any) -> None:
        service, action = event_name.split(".")[1:]
        parsed: dict[str, Any] = dict(parsed_response or {})
        about = parsed.pop("ResponseMetadata", {})
        transcript.write(
            f"{service}.{action}",
            getattr(_LOCAL, "params", {}),
            parsed,
            status=int(about.get("HTTPStatusCode", 0)),
            code=str(parsed.get("Error", {}).get("Code", "")) or (type(exception).__name__ if exception else ""),
            request_id=bool(about.get("RequestId")),
            seconds=time.monotonic() - getattr(_LOCAL, "begun", time.monotonic()),
        )

    @functools.wraps(create)
    def create_client(self: botocore.session.Session, *args: Any, **kwargs: Any) -> Any:
        client = create(self, *args, **kwargs)
        client.meta.events.register("provide-client-params", asked)
        client.meta.events.register("before-send", sends)
        client.meta.events.register("response-received", answered)
        return client

    botocore.session.Session.create_client = create_client


def watch_requests(transcript: Transcript) -> None:
    """Write what goes through requests: Google's client and DigitalOcean's."""
    send = requests.adapters.HTTPAdapter.send

    @functools.wraps(send)
    def watched(self: requests.adapters.HTTPAdapter, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        begun = time.monotonic()
        address = urlsplit(str(request.url))
        operation = shapes.operation_of(request.method or "", address.path)
        asked = {"query": address.query, "body": _data(request.body)}

        def write(answer: Any, status: int, code: str, *, request_id: bool) -> None:
            took = time.monotonic() - begun
            transcript.write(operation, asked, answer, status=status, code=code, request_id=request_id, seconds=took)

        try:
            response = send(self, request, *args, **kwargs)
        except requests.RequestException as error:
            write({}, 0, type(error).__name__, request_id=False)
            raise
        answer = {} if kwargs.get("stream") else _data(response.content)
        code = _code(answer) if response.status_code >= _FIRST_ERROR else ""
        write(answer, response.status_code, code, request_id=bool(response.headers.get("x-request-id")))
        return response

    requests.adapters.HTTPAdapter.send = watched  # type: ignore[method-assign]


def _data(body: Any) -> Any:
    """The data of a body of JSON; its size where it is something else."""
    if not body:
        return {}
    try:
        return json.loads(body)
    except (ValueError, TypeError):
        return {"bytes": len(body)}


def _code(answer: Any) -> str:
    """The error code of an answer: Google's reason, or DigitalOcean's id."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error")
    if isinstance(error, dict):
        errors = error.get("errors") or [{}]
        return str(errors[0].get("reason") or error.get("status") or "")
    return str(answer.get("id", ""))


def main() -> None:
    """Watch, and be the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transcript", type=Path, required=True)
    parser.add_argument("--step", required=True)
    parser.add_argument("words", nargs="+")
    given = parser.parse_args()
    transcript = Transcript(given.transcript, given.step)
    watch_botocore(transcript)
    watch_requests(transcript)
    sys.argv = ["gpuprov", *given.words]
    ours = {things.WORD: things.main, questions.WORD: questions.main}.get(given.words[0])
    if ours is not None:
        ours(given.words[1:])
    else:
        gpuprov()


if __name__ == "__main__":
    main()
