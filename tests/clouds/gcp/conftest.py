"""A Compute Engine API on loopback that answers three read-only methods and checks every request and answer with Google's own document.

The routes, the query parameters and the shape of the answers come from the discovery document that google-api-python-client carries.
"""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import googleapiclient
import jsonschema
import pytest
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from provision.clouds.gcp.access import GcpAccess
from provision.rehearsal.control import Rehearsal
from tests.clouds.gcp.rig import GcpRig

DOCUMENT = json.loads((Path(googleapiclient.__file__).parent / "discovery_cache/documents/compute.v1.json").read_text())


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of the document as JSON Schema: references by pointer, no field that it does not name."""
    if "$ref" in schema:
        return {"$ref": f"#/$defs/{schema['$ref']}"}
    made: dict[str, Any] = {key: schema[key] for key in ("type", "enum") if schema.get(key, "any") != "any"}
    if "items" in schema:
        made["items"] = _strict(schema["items"])
    if schema.get("type") == "object":
        made["properties"] = {name: _strict(value) for name, value in schema.get("properties", {}).items()}
        extra = schema.get("additionalProperties")
        made["additionalProperties"] = _strict(extra) if extra else False
    return made


SCHEMAS = {name: _strict(schema) for name, schema in DOCUMENT["schemas"].items()}


@dataclass
class Compute:
    """The emulator.

    Attributes:
        zones: zone → accelerators.
        fails: method id → HTTP status to answer with.
        calls: the method ids that were asked.
    """

    zones: dict[str, list[str]] = field(default_factory=dict)
    fails: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, given: dict[str, str]) -> dict[str, Any]:
        if method == "acceleratorTypes.aggregatedList":
            scopes: dict[str, Any] = {
                f"zones/{zone}": {"acceleratorTypes": [{"name": name, "kind": "compute#acceleratorType"} for name in names]}
                for zone, names in self.zones.items()
            }
            empty = {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope on this page."}}
            return {"kind": "compute#acceleratorTypeAggregatedList", "items": scopes | {"zones/us-nowhere1-a": empty}}
        assert method == "images.getFromFamily"
        return {"kind": "compute#image", "name": f"{given['family']}-v20261101", "family": given["family"], "status": "READY"}

    def __call__(self, environ: Any, start_response: Any) -> Any:
        request = Request(environ)
        for resource, method in (("acceleratorTypes", "aggregatedList"), ("images", "getFromFamily")):
            described = DOCUMENT["resources"][resource]["methods"][method]
            pattern = "/" + DOCUMENT["servicePath"] + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", described["flatPath"])
            matched = re.fullmatch(pattern, request.path)
            if not matched or request.method != described["httpMethod"]:
                continue
            name = f"{resource}.{method}"
            self.calls.append(name)
            unknown = set(request.args) - set(described["parameters"]) - set(DOCUMENT["parameters"])
            status = 400 if unknown else self.fails.get(name, 200)
            if status != 200:
                said = f"unknown {unknown}" if unknown else "injected"
                return self.send({"error": {"code": status, "message": said, "errors": []}}, status, environ, start_response)
            body = self.answer(name, matched.groupdict())
            # Not jsonschema.validate: that checks the 2,000 schemas of the document themselves at each answer.
            jsonschema.Draft202012Validator({"$defs": SCHEMAS, **_strict(described["response"])}).validate(body)
            return self.send(body, 200, environ, start_response)
        return self.send({"error": {"code": 404, "message": request.path, "errors": []}}, 404, environ, start_response)

    @staticmethod
    def send(body: dict[str, Any], status: int, environ: Any, start_response: Any) -> Any:
        return Response(json.dumps(body), status=status, mimetype="application/json")(environ, start_response)


@pytest.fixture
def compute() -> Iterator[Compute]:
    made = Compute()
    server = make_server("127.0.0.1", 0, made, threaded=True)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def gcp(compute: Compute) -> GcpAccess:
    return GcpAccess("my-project", compute.url)


@pytest.fixture
def rig(ec2_api: Rehearsal) -> Iterator[GcpRig]:
    rig = GcpRig(ec2_api)
    rig.heal()
    rig.forget()
    yield rig
    rig.heal()
