"""Cloud Storage of the embedded GCP over plain HTTP: conditional writes, checked tokens, and what a service account may do.

The machine is the metadata server's client without a host: it asks for itself from its own loopback address.
"""

import json
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any

import pytest
from google.auth import jwt
from google.cloud import compute_v1 as c

from tests.rehearsal.gcp.conftest import Gce
from tests.rehearsal.gcp.machine import Machine

ACCOUNT = "member@gpuprov-rehearsal.iam.gserviceaccount.com"


class Store:
    """One bucket, with a token or as the account's owner."""

    def __init__(self, gce: Gce, token: str = "") -> None:
        self.base, self.bucket, self.token = gce.rehearsal.endpoints["gcp"], f"b-{uuid.uuid4().hex[:12]}", token or gce.token

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.base}{path}", data=body, method=method, headers=headers)  # noqa: S310 - our loopback URL
        try:
            with urllib.request.urlopen(request) as reply:  # noqa: S310 - as above
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def put(self, name: str, body: bytes = b"x", **query: Any) -> int:
        asked = urllib.parse.urlencode({"uploadType": "media", "name": name, **query})
        return self.ask("POST", f"/upload/storage/v1/b/{self.bucket}/o?{asked}", body)[0]

    def get(self, name: str, query: str = "alt=media") -> tuple[int, bytes]:
        return self.ask("GET", f"/storage/v1/b/{self.bucket}/o/{urllib.parse.quote(name, safe='')}?{query}")

    def list(self, prefix: str, **query: Any) -> tuple[int, Any]:
        code, raw = self.ask("GET", f"/storage/v1/b/{self.bucket}/o?{urllib.parse.urlencode({'prefix': prefix, **query})}")
        return code, json.loads(raw)


def rights(gce: Gce, store: Store, **by_role: str) -> None:
    bindings = [
        {
            "role": f"roles/storage.{role}",
            "condition": {"expression": f'resource.name.startsWith("projects/_/buckets/{store.bucket}/objects/{prefix}")'},
        }
        for role, prefix in by_role.items()
    ]
    gce.ask("settings", {"gce_account_policies": {ACCOUNT: {"bindings": bindings}}})


@pytest.fixture
def machine(gce: Gce) -> Machine:
    name = gce.made(service_accounts=[c.ServiceAccount(email=ACCOUNT, scopes=["https://www.googleapis.com/auth/cloud-platform"])])
    return Machine(gce.rehearsal, gce.get(name))


def test_an_object_is_what_was_written_under_its_whole_name(gce: Gce) -> None:
    store, name = Store(gce), "a/b c/ü.json"
    assert store.put(name, b"\x00one") == 200
    assert store.get(name) == (200, b"\x00one")
    shown = json.loads(store.get(name, "")[1])
    assert (shown["name"], shown["size"]) == (name, "4")
    assert store.get("a/other")[0] == 404


def test_what_is_there_is_not_written_again(gce: Gce) -> None:
    store = Store(gce)
    assert store.put("x", b"first", ifGenerationMatch=0) == 200
    assert store.put("x", b"second", ifGenerationMatch=0) == 412
    assert store.get("x")[1] == b"first"
    generation = json.loads(store.get("x", "")[1])["generation"]
    assert store.put("x", b"third", ifGenerationMatch=generation) == 200
    assert store.put("x", b"fourth", ifGenerationMatch=generation) == 412


def test_a_listing_is_by_prefix_and_in_pages(gce: Gce) -> None:
    store = Store(gce)
    for name in ("p/1", "p/2", "p/3", "q/1"):
        store.put(name)
    code, first = store.list("p/", maxResults=2)
    assert (code, [row["name"] for row in first["items"]]) == (200, ["p/1", "p/2"])
    second = store.list("p/", maxResults=2, pageToken=first["nextPageToken"])[1]
    assert [row["name"] for row in second["items"]] == ["p/3"]
    assert "nextPageToken" not in second
    assert store.list("p/", unheard_of=1)[0] == 400  # as Google's document has it


@pytest.mark.parametrize("token", ["nonsense", "ya29.1.00", "ya29.é"])
def test_a_token_that_nobody_was_given_is_refused(gce: Gce, token: str) -> None:
    assert Store(gce, urllib.parse.quote(token)).put("x") == 401


def test_a_token_ends_with_its_machine(gce: Gce, machine: Machine) -> None:
    store = Store(gce, machine.token())
    rights(gce, store, objectUser="")
    assert store.put("x") == 200
    gce.done(gce.instances.delete_unary(project=gce.project, zone=gce.zone, instance=machine.name))
    assert store.put("y") == 401


def test_an_account_may_do_what_its_policy_says_and_no_more(gce: Gce, machine: Machine) -> None:
    owner, store = Store(gce), Store(gce, machine.token())
    owner.bucket = store.bucket
    owner.put("bundles/1")
    assert store.put("evidence/1") == 403  # without a policy nothing
    rights(gce, store, objectCreator="evidence/", objectViewer="bundles/")
    assert store.put("evidence/1", ifGenerationMatch=0) == 200
    assert store.put("evidence/1") == 403  # to write over it is to delete it
    assert store.put("evidence/1", ifGenerationMatch=0) == 412
    assert store.put("bundles/1") == 403
    assert store.get("bundles/1")[0] == 200
    assert store.get("evidence/1")[0] == 403
    assert store.list("bundles/")[0] == 403  # a listing is of the bucket
    assert store.ask("DELETE", f"/storage/v1/b/{store.bucket}/o/evidence%2F1")[0] == 403
    assert store.ask("GET", f"/compute/v1/projects/{gce.project}/regions")[0] == 403


def test_a_condition_that_is_not_understood_does_not_hold(gce: Gce, machine: Machine) -> None:
    store = Store(gce, machine.token())
    row = {"role": "roles/storage.objectUser", "condition": {"expression": 'resource.name.startsWith("projects/") || request.time > 0'}}
    gce.ask("settings", {"gce_account_policies": {ACCOUNT: {"bindings": [row]}}})
    assert store.put("x") == 403


def test_an_identity_is_signed_for_its_audience_alone(gce: Gce, machine: Machine) -> None:
    _, raw = Store(gce).ask("GET", "/oauth2/v1/certs")
    claims = jwt.decode(machine.identity("one"), certs=json.loads(raw), audience="one")  # type: ignore[no-untyped-call]
    engine = claims["google"]["compute_engine"]
    assert (engine["instance_id"], engine["instance_name"]) == (machine.id, machine.name)
    assert claims["email"] == ACCOUNT
    with pytest.raises(ValueError, match="audience"):
        jwt.decode(machine.identity("one"), certs=json.loads(raw), audience="two")  # type: ignore[no-untyped-call]


def test_a_machine_without_an_account_gets_no_token(gce: Gce) -> None:
    machine = Machine(gce.rehearsal, gce.get(gce.made()))
    assert machine.ask("instance/service-accounts/default/token")[0] == 404
    assert machine.ask("instance/id") == (200, machine.id)


def test_without_its_header_the_metadata_server_answers_nothing(machine: Machine) -> None:
    assert machine.ask("instance/id", {})[0] == 403
    assert machine.ask("instance/id", {"Metadata-Flavor": "Google", "X-Forwarded-For": "203.0.113.1"})[0] == 403
    assert machine.ask("instance/id", source="127.0.0.1")[0] == 404
