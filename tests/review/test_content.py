"""A review says what the profile, the lock, the roles and the checks say, and nothing of its own."""

import json

import pytest
from pydantic import ValidationError

from provision.profile import load
from provision.profile.model import Profile
from provision.review.content import content

from .examples import HOSTILE, SHIPPED, hostile, review, risk_ids, shipped


@pytest.mark.parametrize("name", SHIPPED)
def test_equal_input_gives_equal_reviews(name: str) -> None:
    first, second = (json.dumps(review(name).as_dict(), sort_keys=True) for _ in range(2))
    assert first == second


def test_a_profile_without_places_is_reviewed_without_what_only_a_launch_makes() -> None:
    made = review("workstation")
    assert (made.places, made.disks, made.doors, made.calls, made.permissions) == ((), (), (), (), ())
    assert "first boot" not in {change.role for change in made.changes}
    assert set(risk_ids(made)).isdisjoint({"public-address", "ssh-open", "egress", "login-sudo", "nowhere"})
    assert "nothing-launched" in risk_ids(made)
    assert {gain.title for gain in made.gains} == {
        "Repositories are trusted by fingerprint",
        "Wheels are trusted by hash",
        "Everything is tagged and recorded",
    }


def test_nothing_is_asked_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: object) -> None:
        pytest.fail("a review opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert review().calls


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_model_refuses_what_a_profile_may_not_hold_and_carries_the_rest_as_data(kind: str) -> None:
    """Every text field of the model, through the real door."""
    plain = shipped("t4-train")[0].dump()
    refused = 0
    fields = [
        ("purpose",),
        ("owner", "name"),
        ("owner", "email"),
        ("name",),
        ("os", "version"),
        ("disks", "data", "mount"),
        ("gpu", "model"),
    ]
    for path in fields:
        document = json.loads(json.dumps(plain))
        at = document
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = HOSTILE[kind]
        try:
            Profile.model_validate(document)
        except ValidationError:
            refused += 1
    free = {"html", "attribute", "markdown", "jinja", "shell", "hebrew"}
    assert refused == (len(fields) - 2 if kind in free else len(fields))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_does_not_break_a_review(kind: str) -> None:
    found = content(*hostile(HOSTILE[kind]))
    again = json.loads(json.dumps(found.as_dict()))
    assert again["purpose"] == HOSTILE[kind]
    assert risk_ids(found)["not-pinned"] == "high"


def test_the_lines_of_a_profile_are_those_of_its_file() -> None:
    _, _, source = shipped("t4-train")
    text = source.decode().splitlines()
    for key, line in load.lines(source).items():
        last = key.split(".")[-1]
        assert last.isdigit() or f"{last}:" in text[line - 1], (key, line)
