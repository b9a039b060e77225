"""A value of another type than Google's documents say is no answer of Google's, however deep it stands."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.gcp.shapes import GoogleAnswer
from provision.clouds.received import check_shape
from provision.errors import CloudUnreachableError


@pytest.mark.parametrize(
    "body",
    [
        {"permissions": "compute.instances.osAdminLogin"},
        {"loginProfile": {"posixAccounts": ["ann"]}},
        {"loginProfile": {"sshPublicKeys": {"a": "ssh-ed25519 AAAA"}}},
        {"posixAccounts": [{"username": ["ann"]}]},
        {"sshPublicKeys": {"a": {"key": "ssh-ed25519 AAAA", "expirationTimeUsec": "soon"}}},
        {"expirationTimeUsec": "soon"},
        {"bindings": [{"role": "roles/owner", "members": "user:a@example.com"}]},
        {"items": [{"name": "a", "size": "large", "timeCreated": "2026-11-27T00:00:00Z"}]},
        {"items": [], "nextPageToken": {}},
    ],
)
def test_a_value_of_another_type_is_no_answer(body: dict[str, Any]) -> None:
    with pytest.raises(CloudUnreachableError, match="another type"):
        check_shape(body, GoogleAnswer)


def test_a_number_in_a_text_is_one() -> None:
    """Google writes 64-bit numbers as texts: developers.google.com/discovery/v1/type-format."""
    check_shape({"sshPublicKeys": {"a": {"key": "k", "expirationTimeUsec": "1795000000000000"}}, "else": 1}, GoogleAnswer)
