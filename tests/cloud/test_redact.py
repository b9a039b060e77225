"""No secret reaches a transcript, under whatever name and however deep it stands; what a reader needs stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cloud.redact import Redactor

CANARY = "wJalrXUtnFEMI-canary-4711"


@pytest.mark.parametrize(
    "value",
    [
        {"UserData": CANARY},
        {"body": {"user_data": CANARY}},
        {"metadata": {"items": [{"key": "ssh-keys", "value": CANARY}]}},
        {"metadata": {"items": [{"key": "startup-script", "value": CANARY}]}},
        {"Credentials": {"SecretAccessKey": CANARY, "SessionToken": CANARY}},
        {"sshPublicKey": {"key": "x", "public_key": CANARY}},
        {"access_token": CANARY},
        {"Authorization": f"Bearer {CANARY}"},
        {"message": f"signed with {CANARY}"},  # a value of the environment, wherever it stands
        {"text": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----"},
        {"text": f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}"},
        {"ssh_keys": [CANARY]},
    ],
)
def test_a_secret_is_removed(value: dict[str, Any]) -> None:
    assert CANARY not in json.dumps(Redactor([CANARY]).value(value))
    if "message" not in value:
        assert CANARY not in json.dumps(Redactor([]).value(value))


@pytest.mark.parametrize(
    "text", ["AKIAIOSFODNN7EXAMPLE", "dop_v1_0123456789abcdef", "ya29.a0AfH6SMBx", "eyJhbGciOiJSUzI1.eyJpc3MiOiJ4eXo.sig"]
)
def test_what_looks_like_a_credential_is_removed_without_being_named(text: str) -> None:
    assert text not in Redactor([]).text(f"it was {text} again")


def test_an_account_is_the_same_word_each_time_and_publishers_stay() -> None:
    redactor = Redactor([], known=["099720109477"], names=["isa-gpu-prod"])
    one, two = redactor.text("arn:aws:iam::123456789012:role/x"), redactor.text("123456789012")
    assert two.startswith("account-")
    assert two in one
    assert redactor.text("owner 099720109477") == "owner 099720109477"
    assert redactor.text("projects/isa-gpu-prod/zones").startswith("projects/project-")
    assert "@" not in redactor.text("ada@example.com")


def test_figures_names_and_states_stay_and_a_long_text_is_cut() -> None:
    kept = {"InstanceId": "i-0123", "State": {"Code": 16, "Name": "running"}, "Encrypted": True, "Iops": None}
    assert Redactor([]).value(kept) == kept
    assert len(Redactor([]).text("x" * 10_000)) < 5_000
