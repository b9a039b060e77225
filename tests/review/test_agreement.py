"""What should hold on existing hosts: whose signatures it needs, and what they are worth where none is needed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from provision.errors import PolicyInvalidError, SignatureMissingError, SignatureRefusedError
from provision.review import bundle, sign
from provision.review.approval import agreement
from provision.review.where import Organisation
from tests.review.samples import People, signed_bundle

NOW = dt.datetime.now(dt.UTC)
LAX = b"schema: 1\nname: lax\n"
ONE = b"schema: 1\nname: one\nsignatures: {required: 1, max_age_days: 14}\n"
TWO = b"schema: 1\nname: two\nsignatures: {required: 2}\n"
OF_ALICE = b"schema: 1\nname: of-alice\nsignatures: {required: 1, principals: [alice@example.com]}\n"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People.make(tmp_path_factory.mktemp("people"))


def bundled(tmp_path: Path, people: People, *signers: str, policy: bytes | None = None) -> Path:
    return signed_bundle(tmp_path / "t4.bundle", people, *signers, policy=policy, now=NOW)


def rules(tmp_path: Path, raw: bytes | None) -> Path | None:
    path = tmp_path / "policy.yml"
    path.write_bytes(raw or b"")
    return path if raw else None


# The organisation's rules, those of the bundle, who signed, and how many signatures are required.
ENOUGH = [
    (TWO, None, ("alice", "bob"), 2),
    (None, TWO, ("alice", "bob"), 2),
    (LAX, TWO, ("alice", "bob"), 2),
    (TWO, LAX, ("alice", "bob", "carol"), 2),
    (ONE, TWO, ("bob",), 1),
    (OF_ALICE, None, ("alice",), 1),
]


@pytest.mark.parametrize(("ours", "its", "signers", "required"), ENOUGH)
def test_enough_signatures_make_an_agreement(
    tmp_path: Path, people: People, *, ours: bytes | None, its: bytes | None, signers: tuple[str, ...], required: int
) -> None:
    path = bundled(tmp_path, people, *signers, policy=its)
    agreed = agreement(path, Organisation(rules(tmp_path, ours), people.signers), NOW)
    assert agreed.bundle == bundle.read(path)
    assert [(s.principal, s.outcome) for s in agreed.signatures] == [(f"{name}@example.com", "valid") for name in signers]
    assert agreed.required == required
    reviewed, statement = agreed.reviewed, agreed.bundle.statement
    assert (reviewed.statement, reviewed.profile) == (agreed.bundle.digest, statement.profile.sha256)
    assert (reviewed.lock, reviewed.required, reviewed.counted) == (statement.lock.sha256, required, len(signers))
    assert [(a.principal, a.outcome, a.key) for a in reviewed.approvals] == [(s.principal, s.outcome, s.key) for s in agreed.signatures]


@pytest.mark.parametrize(
    ("ours", "its", "signers"),
    [
        (TWO, None, ("alice",)),
        (None, TWO, ("alice",)),
        (LAX, TWO, ("alice",)),
        (TWO, ONE, ("alice",)),
        (OF_ALICE, None, ("bob", "carol")),
        (None, OF_ALICE, ("bob", "carol")),
    ],
)
def test_too_few_signatures_make_none(
    tmp_path: Path, people: People, ours: bytes | None, its: bytes | None, signers: tuple[str, ...]
) -> None:
    path = bundled(tmp_path, people, *signers, policy=its)
    with pytest.raises(SignatureMissingError) as missing:
        agreement(path, Organisation(rules(tmp_path, ours), people.signers), NOW)
    assert missing.value.hint


def test_what_is_required_needs_somebody_who_may_sign(tmp_path: Path, people: People) -> None:
    path = bundled(tmp_path, people, "alice", policy=ONE)
    with pytest.raises(SignatureMissingError):
        agreement(path, Organisation(), NOW)


def test_a_required_signature_counts_to_the_second_that_the_rules_say(tmp_path: Path, people: People) -> None:
    path = bundled(tmp_path, people, "alice", policy=ONE)
    organisation, last = Organisation(signers=people.signers), NOW.replace(microsecond=0) + dt.timedelta(days=14)
    assert agreement(path, organisation, last).required == 1
    with pytest.raises(SignatureMissingError):
        agreement(path, organisation, last + dt.timedelta(seconds=1))


@pytest.mark.parametrize("policy", [None, LAX])
def test_where_no_signature_is_required_each_is_told_as_it_is(tmp_path: Path, people: People, policy: bytes | None) -> None:
    path = bundled(tmp_path, people, "alice", "mallory", policy=policy)
    organisation = Organisation(signers=people.signers)
    for now, of_alice, counted in ((NOW, "valid", 1), (NOW + dt.timedelta(days=31), "lapsed", 0)):
        agreed = agreement(path, organisation, now)
        assert (agreed.bundle, agreed.required, agreed.reviewed.counted) == (bundle.read(path), 0, counted)
        assert [(s.principal, s.outcome) for s in agreed.signatures] == [("alice@example.com", of_alice), ("mallory@example.com", "lapsed")]
    assert agreement(bundled(tmp_path / "b", people, policy=policy), organisation, NOW).signatures == ()


def test_where_nobody_knows_who_may_sign_no_signature_counts(tmp_path: Path, people: People) -> None:
    path = bundled(tmp_path, people, "alice")
    agreed = agreement(path, Organisation(), NOW)
    [said] = sign.judge(agreed.bundle, Organisation(signers=people.signers), NOW)
    [told] = agreed.signatures
    assert (told.principal, told.outcome, told.key) == ("alice@example.com", "unchecked", "")
    assert (told.signed_at, told.expires) == (said.signed_at, said.expires)
    assert (agreed.required, agreed.reviewed.counted) == (0, 0)


@pytest.mark.parametrize("policy", [None, LAX, ONE])
def test_a_forged_signature_refuses_even_where_none_is_required(tmp_path: Path, people: People, policy: bytes | None) -> None:
    path = bundled(tmp_path, people, "alice", "bob", policy=policy)
    (path / "approvals/bob@example.com.json").write_bytes(b"{}\n")
    with pytest.raises(SignatureRefusedError) as refused:
        agreement(path, Organisation(signers=people.signers), NOW)
    assert "approvals/bob@example.com.json" in refused.value.message


@pytest.mark.parametrize(("ours", "its", "named"), [(b"nonsense", None, "policy.yml"), (None, b"nonsense", "t4.bundle/policy.yml")])
def test_rules_that_cannot_be_read_refuse_and_are_named(
    tmp_path: Path, people: People, ours: bytes | None, its: bytes | None, named: str
) -> None:
    path = bundled(tmp_path, people, "alice", policy=its)
    with pytest.raises(PolicyInvalidError) as refused:
        agreement(path, Organisation(rules(tmp_path, ours), people.signers), NOW)
    assert str(tmp_path / named) in refused.value.message
