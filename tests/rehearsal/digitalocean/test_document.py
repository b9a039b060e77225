"""The part of DigitalOcean's OpenAPI document that ships: what it is, how it was made, and what it takes and refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import openapi_spec_validator
import pytest

from provision.rehearsal.digitalocean import document
from provision.rehearsal.digitalocean.api import _HANDLERS
from provision.rehearsal.digitalocean.refusals import DropletApiError
from tests.rehearsal.digitalocean import make_openapi
from tests.rehearsal.digitalocean.make_openapi import OPERATIONS, TARGET, Bundle

RAW = TARGET.read_text()


def test_it_is_an_openapi_document_that_names_its_source_and_its_licence() -> None:
    shipped = json.loads(RAW)
    openapi_spec_validator.validate(shipped)
    assert shipped["openapi"] == "3.0.0"
    assert shipped["info"]["license"]["name"] == "Apache 2.0"
    assert "Apache License, Version 2.0" in shipped["x-notice"]
    assert shipped["x-source"] == {"commit": "7c1300c479fed9c353cda9fc21cd968619552304", "date": "2026-08-07"}


def test_every_operation_of_it_is_carried_out_and_no_other() -> None:
    written = {operation["operationId"] for item in json.loads(RAW)["paths"].values() for operation in item.values()}
    assert written == set(OPERATIONS) == set(_HANDLERS)


def test_off_is_a_word_and_only_what_is_needed_is_kept() -> None:
    schemas = json.loads(RAW)["components"]["schemas"]
    assert schemas["droplets.models.droplet"]["properties"]["status"]["enum"] == ["new", "active", "off", "archive"]
    assert "droplets.models.kernel" in schemas  # through a reference
    assert "databases" not in "".join(schemas)
    assert '"example"' not in RAW


ENTRY = """
openapi: '3.0.0'
info: {title: T, version: '2', license: {name: Apache 2.0}}
paths:
  '/v2/a/{id}': {get: {$ref: 'resources/a/get.yml'}}
  /v2/b: {get: {operationId: b_list, security: [], responses: {}}}
components: {securitySchemes: {bearer_auth: {$ref: 'shared/auth.yml#/bearer'}}}
"""
FILES = {
    make_openapi.ENTRY: ENTRY,
    "specification/shared/auth.yml": "bearer: {type: http, scheme: bearer, description: gone}",
    "specification/resources/a/get.yml": """
operationId: a_get
security: [{bearer_auth: ['a:read']}]
parameters: [{$ref: 'parameters.yml#/id'}]
responses: {'200': {description: fine, content: {application/json: {schema: {$ref: 'models/a.yml'}}}}}
""",
    "specification/resources/a/parameters.yml": "id: {name: id, in: path, required: true, example: 1, schema: {type: integer}}",
    "specification/resources/a/models/a.yml": """
type: object
description: gone
properties:
  description: {type: string, example: kept as a field}
  state: {type: string, enum: [on, off]}
  next: {$ref: 'a.yml'}
""",
}


def test_the_files_of_a_commit_become_one_with_their_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "a", "--date", "2026-01-02T00:00:00Z"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    monkeypatch.setattr(make_openapi, "OPERATIONS", ("a_get",))
    made = Bundle(tmp_path / ".git", "HEAD").document()
    assert list(made["paths"]) == ["/v2/a/{id}"]
    operation = made["paths"]["/v2/a/{id}"]["get"]
    assert operation["parameters"] == [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}]
    assert operation["responses"]["200"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/a.models.a"}
    assert made["components"]["schemas"]["a.models.a"]["properties"] == {
        "description": {"type": "string"},
        "state": {"type": "string", "enum": ["on", "off"]},
        "next": {"$ref": "#/components/schemas/a.models.a"},
    }
    assert made["components"]["securitySchemes"] == {"bearer_auth": {"type": "http", "scheme": "bearer"}}


def body(operation: str, given: Any) -> dict[str, Any]:
    verb, path = {"droplets": ("POST", "/v2/droplets"), "keys": ("POST", "/v2/account/keys"), "act": ("POST", "/v2/droplets/1/actions")}[
        operation
    ]
    loaded = document.load()
    return loaded.body(loaded.find(verb, path)[0], given if isinstance(given, bytes) else json.dumps(given).encode())


GOOD = {"name": "a.b-1", "size": "s", "image": "i"}


@pytest.mark.parametrize("given", [GOOD, {**GOOD, "image": 1}, {"names": ["a", "b"], "size": "s", "image": 1}, {**GOOD, "tags": None}])
def test_a_body_that_the_document_allows_is_taken(given: dict[str, Any]) -> None:
    assert body("droplets", given) == given


@pytest.mark.parametrize(
    ("operation", "given", "status", "says"),
    [
        ("droplets", b"{", 400, "not JSON"),
        ("droplets", [], 422, "body"),
        ("droplets", {"name": "a", "image": 1}, 422, "not valid"),
        ("droplets", {**GOOD, "names": ["b"]}, 422, "each of"),
        ("droplets", {**GOOD, "name": "a_b"}, 422, "valid hostname characters"),
        ("droplets", {**GOOD, "name": "a" * 256}, 422, "valid hostname characters"),
        ("droplets", {**GOOD, "public_networking": "no"}, 422, "no"),
        ("droplets", {**GOOD, "public_network": False}, 422, "public_network"),  # DigitalOcean would ignore it
        ("keys", {"name": "a"}, 422, "public_key"),
        ("keys", {"name": "a", "public_key": "b", "id": 3}, 422, "read-only"),
        ("keys", b"", 422, "public_key"),
        ("act", {"type": "explode"}, 422, "explode"),
    ],
)
def test_a_body_that_it_does_not_allow_is_refused(operation: str, given: Any, status: int, says: str) -> None:
    with pytest.raises(DropletApiError) as caught:
        body(operation, given)
    assert caught.value.http == status
    assert says.lower() in caught.value.message.lower()


def test_paths_and_queries_become_values_and_wrong_ones_are_refused() -> None:
    loaded = document.load()
    operation, path = loaded.find("GET", "/v2/droplets/17")
    assert (operation.id, path) == ("droplets_get", {"droplet_id": 17})
    listing, _ = loaded.find("GET", "/v2/droplets")
    assert loaded.query(listing, {"page": "2", "name": "17"}) == {"page": 2, "name": "17"}
    for wrong in ({"page": "0"}, {"per_page": "201"}, {"per_page": "x"}, {"type": "cpus"}, {"nmae": "a"}):
        with pytest.raises(DropletApiError) as caught:
            loaded.query(listing, wrong)
        assert caught.value.http == 422
    by_tag, _ = loaded.find("DELETE", "/v2/droplets")
    with pytest.raises(DropletApiError, match="tag_name"):
        loaded.query(by_tag, {})
    for verb, gone in (("GET", "/v2/nothing"), ("GET", "/v2/droplets/1/kernels"), ("PATCH", "/v2/droplets")):
        with pytest.raises(DropletApiError) as caught:
            loaded.find(verb, gone)
        assert caught.value.http == 404


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (200, {"droplet": {"id": 1}}, "required"),
        (202, {"droplet": {}}, "no 202"),
        (404, {"message": "an error without an id"}, "id"),
    ],
)
def test_an_answer_that_digitalocean_could_not_give_is_a_defect_of_ours(status: int, answer: Any, says: str) -> None:
    loaded = document.load()
    with pytest.raises(DropletApiError, match=says) as caught:
        loaded.check_answer(loaded.find("GET", "/v2/droplets/1")[0], status, answer)
    assert (caught.value.http, caught.value.code) == (500, "emulator_error")


def test_an_answer_without_a_body_must_have_none() -> None:
    loaded = document.load()
    delete, _ = loaded.find("DELETE", "/v2/droplets/1")
    loaded.check_answer(delete, 204, None)
    with pytest.raises(DropletApiError, match="not expected"):
        loaded.check_answer(delete, 204, {"id": 1})
