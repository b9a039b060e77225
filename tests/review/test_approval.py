"""What may run: what the rules allow and enough people have signed; and what is said of the rest."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.errors import (
    BundleInvalidError,
    BundleStaleError,
    GpuprovError,
    LockStaleError,
    PolicyInvalidError,
    PolicyViolatedError,
    SignatureMissingError,
    SignatureRefusedError,
)
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import Lock
from provision.review import approval, bundle, sign
from provision.review.approval import Admission, Submission, admit
from provision.review.where import Organisation
from provision.structs import replace
from tests.review.samples import WAIVED, People, files, signed_bundle

NOW = dt.datetime.now(dt.UTC)
TODAY = NOW.date()
TWO = b"schema: 1\nname: isa-rules\ncontact: isa@example.com\nsignatures: {required: 2}\n"
STRICT = b"schema: 1\nname: strict\nmax_deadline_h: 8\nsignatures: {required: 1}\n"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People.make(tmp_path_factory.mktemp("people"))


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The engineer's own file, with its lock beside it."""
    made = files()
    path = tmp_path / "t4-train.yml"
    path.write_bytes(made["profile.yml"])
    lockfile.path_for(path).write_bytes(made["lock.yml"])
    return path


def rules(tmp_path: Path, raw: bytes) -> Path:
    path = tmp_path / "policy.yml"
    path.write_bytes(raw)
    return path


def bundled(tmp_path: Path, people: People, *signers: str, policy: bytes | None = None) -> Path:
    return signed_bundle(tmp_path / "t4.bundle.zip", people, *signers, policy=policy, now=NOW)


def refused(kind: type[GpuprovError], asked: Submission | None, path: Path | None, organisation: Organisation) -> str:
    with pytest.raises(kind) as error:
        admit(asked, path, organisation, NOW)
    assert (error.value.exit_code, bool(error.value.hint)) == (2, True)
    return error.value.message


def test_without_rules_and_bundle_anything_runs_and_no_lock_is_asked_for(profile: Path) -> None:
    def never() -> Lock:
        pytest.fail("nobody needs it")

    asked = Submission(load.load(profile), never, profile)
    assert admit(asked, None, Organisation(), NOW) == Admission(asked.profile)


def test_rules_that_are_kept_and_demand_no_signature_admit_a_profile(profile: Path, tmp_path: Path) -> None:
    organisation = Organisation(policy=rules(tmp_path, b"schema: 1\nname: isa-rules\nmax_deadline_h: 12\n"))
    assert admit(Submission.read(profile, TODAY), None, organisation, NOW).lock is None


def test_a_broken_rule_refuses_with_its_line(profile: Path, tmp_path: Path) -> None:
    said = refused(PolicyViolatedError, Submission.read(profile, TODAY), None, Organisation(policy=rules(tmp_path, STRICT)))
    line = next(n for n, text in enumerate(profile.read_text().splitlines(), 1) if "deadline_h: 12" in text)
    head, violation = said.splitlines()
    assert head == "t4-train violates the rules strict (1 violation)"
    assert violation == f"  line {line}: limits.deadline_h: 12 h; at most 8 h are allowed (rule max_deadline_h)"


def test_a_profile_without_a_file_is_judged_without_lines(profile: Path, tmp_path: Path) -> None:
    read = Submission.read(profile, TODAY)
    said = refused(PolicyViolatedError, Submission(read.profile, read.lock), None, Organisation(policy=rules(tmp_path, STRICT)))
    assert "\n  limits.deadline_h: 12 h" in said


def test_rules_that_demand_signatures_refuse_a_profile_without_a_bundle(profile: Path, tmp_path: Path, people: People) -> None:
    organisation = Organisation(rules(tmp_path, TWO), people.signers)
    assert "require 2 signatures, and t4-train comes without a bundle" in refused(
        SignatureMissingError, Submission.read(profile, TODAY), None, organisation
    )


def test_enough_signatures_admit_the_bundles_profile_and_lock(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice", "bob")
    reviewed = bundle.read(path)
    for asked in (None, Submission.read(profile, TODAY)):
        admitted = admit(asked, path, Organisation(rules(tmp_path, TWO), people.signers), NOW)
        assert (admitted.profile, admitted.lock, admitted.bundle) == (reviewed.profile, reviewed.lock, reviewed.digest)
        assert [s.outcome for s in admitted.signatures] == ["valid", "valid"]


def test_too_few_refuse(tmp_path: Path, people: People) -> None:
    path = bundled(tmp_path, people, "alice")
    assert "has 1 of 2 signatures" in refused(SignatureMissingError, None, path, Organisation(rules(tmp_path, TWO), people.signers))


def test_a_bundle_needs_one_signature_even_where_there_are_no_rules(tmp_path: Path, people: People) -> None:
    organisation = Organisation(signers=people.signers)
    assert "has 0 of 1" in refused(SignatureMissingError, None, bundled(tmp_path, people), organisation)
    path = bundled(tmp_path, people, "alice")
    assert "there is no allowed_signers file" in refused(SignatureMissingError, None, path, Organisation())
    assert admit(None, path, organisation, NOW).bundle == bundle.read(path).digest


def test_the_rules_of_the_bundle_count_where_this_machine_has_none(tmp_path: Path, people: People) -> None:
    organisation = Organisation(signers=people.signers)
    path = bundled(tmp_path, people, "alice", policy=TWO)
    assert "has 1 of 2 signatures" in refused(SignatureMissingError, None, path, organisation)
    path.unlink()
    path = bundled(tmp_path, people, "alice", policy=STRICT)
    assert "violates the rules strict" in refused(PolicyViolatedError, None, path, organisation)


def test_rules_that_became_stricter_since_the_signature_refuse(tmp_path: Path, people: People) -> None:
    path = bundled(tmp_path, people, "alice", policy=b"schema: 1\nname: lax\n")
    organisation = Organisation(signers=people.signers)
    assert admit(None, path, organisation, NOW).lock is not None
    strict = Organisation(rules(tmp_path, STRICT), people.signers)
    assert "at most 8 h" in refused(PolicyViolatedError, None, path, strict)


def test_a_changed_profile_is_refused_with_what_it_means_and_not_how_it_is_written(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice")
    organisation = Organisation(signers=people.signers)
    lockfile.path_for(profile).unlink()
    text = profile.read_text()
    profile.write_text("# another comment\n" + text.replace("deadline_h: 12 ", "deadline_h:   12 "))
    assert admit(Submission.read(profile, TODAY), path, organisation, NOW).bundle
    profile.write_text(text.replace("deadline_h: 12 ", "deadline_h: 13 ").replace("counters: all-users", "counters: group"))
    said = refused(BundleStaleError, Submission.read(profile, TODAY), path, organisation)
    assert said.splitlines()[1:] == ["  limits.deadline_h: 12 → 13", "  gpu.counters: all-users → group"]
    assert said.startswith(f"t4-train was changed since {path} was reviewed\n")


def test_what_a_changed_profile_says_cannot_forge_a_line(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice")
    text = (
        profile.read_text()
        .replace("purpose: Train", 'purpose: "Train\\n  limits.deadline_h: 1 → 2\\n')
        .replace("Hong Kong.\n", 'Hong Kong."\n', 1)
    )
    profile.write_text(text)
    said = refused(BundleStaleError, Submission.read(profile, TODAY), path, Organisation(signers=people.signers))
    assert len(said.splitlines()) == 2


def test_a_changed_lock_is_refused_with_its_values(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice")
    lock = lockfile.read(lockfile.path_for(profile))
    changed = lock.model_copy(update={"driver": lock.driver.model_copy(update={"branch": "580"})})
    lockfile.path_for(profile).write_text(lockfile.dump(changed))
    said = refused(BundleStaleError, Submission.read(profile, TODAY), path, Organisation(signers=people.signers))
    assert f"driver.branch: {lock.driver.branch} → 580" in said
    profile.write_text(profile.read_text().replace("min_free_gb: 5", "min_free_gb: 6"))
    assert "min_free_gb: 5 → 6" in refused(BundleStaleError, Submission.read(profile, TODAY), path, Organisation(signers=people.signers))


def test_a_digest_of_what_was_signed_is_compared_to_its_last_character(
    tmp_path: Path, people: People, profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bundled(tmp_path, people, "alice")
    read = bundle.read(path)

    def nearly(digest: str) -> str:
        return digest[:-1] + ("0" if digest[-1] != "0" else "1")

    said = read.statement.profile
    other = read.statement.model_copy(update={"profile": said.model_copy(update={"sha256": nearly(said.sha256)})})
    monkeypatch.setattr(approval, "read_bundle", lambda _: replace(read, statement=other))
    organisation = Organisation(signers=people.signers)
    assert "was changed since" in refused(BundleStaleError, Submission.read(profile, TODAY), path, organisation)
    lock: Any = SimpleNamespace(digest=nearly(read.lock.digest), as_dict=read.lock.as_dict)
    monkeypatch.setattr(approval, "read_bundle", lambda _: replace(read, lock=lock))
    assert "the lock of t4-train was changed" in refused(BundleStaleError, Submission.read(profile, TODAY), path, organisation)


def test_a_lock_that_is_older_than_the_profile_is_said_where_rules_need_it(profile: Path, tmp_path: Path) -> None:
    profile.write_text(profile.read_text().replace("min_free_gb: 5", "min_free_gb: 6"))
    with pytest.raises(LockStaleError):
        admit(Submission.read(profile, TODAY), None, Organisation(policy=rules(tmp_path, STRICT)), NOW)


def test_what_cannot_be_read_refuses(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice")
    organisation = Organisation(rules(tmp_path, b"nonsense"), people.signers)
    refused(PolicyInvalidError, Submission.read(profile, TODAY), None, organisation)
    refused(PolicyInvalidError, None, path, organisation)
    refused(BundleInvalidError, None, tmp_path / "no.zip", organisation)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    refused(BundleInvalidError, None, path, Organisation(signers=people.signers))


def test_a_tampered_approval_beside_a_good_one_refuses(tmp_path: Path, people: People) -> None:
    path = tmp_path / "t4.bundle"
    bundle.write(path, files())
    for name in ("alice", "bob"):
        sign.sign(bundle.read(path), key=people.folder / name, principal=f"{name}@example.com", days=30, now=NOW)
    (path / "approvals/bob@example.com.json").write_bytes(b"{}\n")
    said = refused(SignatureRefusedError, None, path, Organisation(signers=people.signers))
    assert "approvals/bob@example.com.json is not an approval" in said


def hint_of(kind: type[GpuprovError], asked: Submission | None, path: Path | None, organisation: Organisation) -> str:
    with pytest.raises(kind) as error:
        admit(asked, path, organisation, NOW)
    return error.value.hint


def test_nothing_is_not_admitted(tmp_path: Path) -> None:
    for organisation in (Organisation(), Organisation(policy=rules(tmp_path, STRICT))):
        with pytest.raises(ValueError, match="neither a profile nor a bundle"):
            admit(None, None, organisation, NOW)


@pytest.mark.parametrize(("contact", "asks"), [(b"contact: isa@example.com\n", True), (b"", False)])
def test_whoever_breaks_rules_is_told_which_and_whom_to_ask(profile: Path, tmp_path: Path, contact: bytes, *, asks: bool) -> None:
    organisation = Organisation(policy=rules(tmp_path, STRICT + contact + b"os: [debian 12]\n"))
    submission = Submission.read(profile, TODAY)
    head, *violations = refused(PolicyViolatedError, submission, None, organisation).splitlines()
    assert ("(2 violations)" in head, len(violations)) == (True, 2)
    hint = hint_of(PolicyViolatedError, submission, None, organisation)
    assert (str(tmp_path / "policy.yml") in hint, "isa@example.com" in hint, "None" in hint, "ask" in hint) == (True, asks, False, asks)


def test_what_needs_a_bundle_is_named_by_its_file_or_its_name(profile: Path, tmp_path: Path) -> None:
    organisation = Organisation(policy=rules(tmp_path, TWO))
    asked = Submission.read(profile, TODAY)
    assert f"review {profile}`" in hint_of(SignatureMissingError, asked, None, organisation)
    assert "review t4-train`" in hint_of(SignatureMissingError, replace(asked, path=None), None, organisation)


def test_a_bundle_that_breaks_a_rule_is_refused_with_its_line(tmp_path: Path, people: People) -> None:
    path = bundled(tmp_path, people, "alice")
    said = refused(PolicyViolatedError, None, path, Organisation(rules(tmp_path, STRICT), people.signers))
    lines = bundle.read(path).files["profile.yml"].decode().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if "deadline_h: 12" in text)
    assert said.splitlines()[1].startswith(f"  line {line}: limits.deadline_h: ")


def test_a_profile_without_a_file_is_compared_with_its_bundle_alone(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice")
    organisation = Organisation(signers=people.signers)
    asked = replace(Submission.read(profile, TODAY), path=None)
    assert admit(asked, path, organisation, NOW).bundle == bundle.read(path).digest
    limits = asked.profile.limits.model_copy(update={"deadline_h": 13})
    asked = replace(asked, profile=asked.profile.model_copy(update={"limits": limits}))
    assert "deadline_h: 12" in refused(BundleStaleError, asked, path, organisation)


def test_a_long_change_is_cut(tmp_path: Path, people: People, profile: Path) -> None:
    path = bundled(tmp_path, people, "alice")
    profile.write_text(profile.read_text().replace("purpose: Train", f"purpose: {'x' * 400} Train"))
    _, line = refused(BundleStaleError, Submission.read(profile, TODAY), path, Organisation(signers=people.signers)).splitlines()
    assert len(line) == 302


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize(
    ("now", "admitted"),
    [
        ("2998-12-21T23:59:59+00:00", False),
        ("2998-12-22T00:00:00+00:00", True),
        ("2998-12-22T13:59:59+14:00", False),
        ("2998-12-21T12:00:00-12:00", True),
    ],
)
def test_a_waiver_may_reach_so_many_days_from_the_day_in_utc(tmp_path: Path, profile: Path, now: str, *, admitted: bool) -> None:
    lockfile.path_for(profile).unlink()
    profile.write_text(profile.read_text() + WAIVED)
    asked = Submission.read(profile, TODAY)
    organisation = Organisation(policy=rules(tmp_path, b"schema: 1\nname: waivers\nmax_waiver_days: 10\n"))
    if admitted:
        assert admit(asked, None, organisation, dt.datetime.fromisoformat(now)).profile == asked.profile
        return
    with pytest.raises(PolicyViolatedError) as error:
        admit(asked, None, organisation, dt.datetime.fromisoformat(now))
    assert "verify.waivers.0.expires" in error.value.message


def test_a_profile_without_a_lock_is_locked_with_what_is_supported_that_day(profile: Path) -> None:
    lockfile.path_for(profile).unlink()
    read = load.load(profile)
    for today in (TODAY, dt.date(2030, 1, 1)):
        assert Submission.read(profile, today).lock() == build(read, today)


@pytest.mark.parametrize("of_bundle", [False, True])
def test_a_program_that_nobody_signed_does_not_run_where_the_rules_demand_signatures(
    tmp_path: Path, people: People, *, of_bundle: bool
) -> None:
    """The rules may be this machine's or those in the bundle."""
    path = bundled(tmp_path, people, "alice", "bob", policy=TWO) if of_bundle else None
    with pytest.raises(PolicyViolatedError) as refused:
        approval.admit_program(path, Organisation() if of_bundle else Organisation(policy=rules(tmp_path, TWO)))
    assert refused.value.message == "the rules isa-rules require signatures, and nobody has signed the program"
    assert "--program" in refused.value.hint


def test_a_program_runs_where_nothing_is_to_be_signed(tmp_path: Path) -> None:
    approval.admit_program(None, Organisation())
    approval.admit_program(None, Organisation(policy=rules(tmp_path, b"schema: 1\nname: isa\ncontact: isa@example.com\n")))
