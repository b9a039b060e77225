"""Every status that DigitalOcean's OpenAPI names for a call of ours, and those that its `default` stands for."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from provision.clouds.digitalocean.errors import of_answer
from provision.rehearsal.digitalocean import document
from tests.clouds import codes
from tests.clouds.codes import KEYED, Answer

SOURCE: Final = Path(__file__).parents[3] / "provision/clouds/digitalocean"
SAID: Final = "DigitalOcean's own sentence."
# "There was an unexpected error." is all that the document says of these; others have seen them (tests/clouds/digitalocean/test_errors.py).
UNEXPECTED: Final = (403, 409, 412, 422, 502, 503, 504)
# An error has an id beside its message, which says no more than the status: shared/models/error.yml.
MAY_BE: Final = {
    "401": {"credentials-expired"},
    "403": {"permission-refused"},
    "429": {"throttled"},
    **{status: {"cloud-unreachable"} for status in ("500", "502", "503", "504")},
}


def answers() -> Iterator[Answer]:
    paths = json.loads(Path(document.__file__).with_name("openapi.json").read_text())["paths"]
    operations = {operation["operationId"]: operation["responses"] for verbs in paths.values() for operation in verbs.values()}
    trees = (ast.walk(ast.parse(file.read_text())) for file in SOURCE.glob("*.py"))
    named = {str(node.value) for tree in trees for node in tree if isinstance(node, ast.Constant)}
    for call in sorted(named & set(operations)):
        listed = {int(status) for status in operations[call] if status.isdecimal() and status >= "400"}
        for http in sorted({*listed, *UNEXPECTED}):
            yield Answer(call, str(http), http)


def table() -> codes.Table:
    body = {"id": "x", "message": SAID}
    return {
        (each.call, each.code): codes.meaning(of_answer(each.http, body, {}, each.call, ("droplet:create",)), SAID) for each in answers()
    }


def test_every_status_of_every_call_is_classified_as_somebody_has_read_it() -> None:
    found = table()
    assert len({call for call, _ in found}) > 20
    codes.compare("digitalocean", found)


def test_a_status_becomes_what_it_is_about_and_no_fault_of_the_profile() -> None:
    for (call, code), ours in table().items():
        assert ours in MAY_BE.get(code, {"cloud-invalid"}), (call, code)
    assert KEYED not in of_answer(422, {"message": SAID}, {}, "droplets_create", ()).hint
