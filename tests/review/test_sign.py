import datetime as dt
import io
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.errors import BundleInvalidError, GpuprovError, SignatureMissingError, SignatureRefusedError
from provision.review import bundle, sign
from provision.review.bundle import Bundle
from provision.review.policy import Signatures
from provision.review.sign import Signature
from provision.review.where import Organisation
from tests.fuzz.run import Odd, lay
from tests.review.samples import People, files, key, public

NOW = dt.datetime.now(dt.UTC)
ALICE, BOB, CAROL, MALLORY = (f"{name}@example.com" for name in ("alice", "bob", "carol", "mallory"))
TWO = Signatures(required=2)


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People.make(tmp_path_factory.mktemp("people"))


@pytest.fixture(params=["t4.bundle", "t4.bundle.zip"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    bundle.write(path, files())
    return path


def signed(path: Path, who: Path, principal: str, *, days: int = 30, now: dt.datetime = NOW) -> Bundle:
    sign.sign(bundle.read(path), key=who, principal=principal, days=days, now=now)
    return bundle.read(path)


def only(path: Path, organisation: Organisation, now: dt.datetime = NOW, rule: Signatures | None = None) -> Signature:
    (signature,) = sign.judge(bundle.read(path), organisation, now, rule)
    return signature


def by_hand(path: Path, principal: str, who: Path, *, namespace: str = sign.NAMESPACE, tail: bytes = b"", **changed: Any) -> None:
    """An approval that says what one likes, signed by ssh-keygen as one likes."""
    reviewed = bundle.read(path)
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    said = {
        "schema": "gpuprov-approval/1",
        "statement": reviewed.digest,
        "principal": principal,
        "signed_at": NOW.strftime(stamp),
        "expires": (NOW + dt.timedelta(days=1)).strftime(stamp),
        **changed,
    }
    raw = bundle.canonical(said) + tail
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", str(who)]
    made = subprocess.run(command, input=raw, capture_output=True, check=True).stdout
    name = f"approvals/{principal}.json"
    bundle.add(reviewed, {name: raw, f"{name}.sig": made})


# --- what holds ---------------------------------------------------------------------------------------------------


def test_a_signature_says_who_what_and_until_when(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE, days=7)
    found = only(path, Organisation(signers=people.signers))
    fingerprint = subprocess.run(["ssh-keygen", "-lf", str(people.alice)], capture_output=True, text=True, check=True).stdout.split()[1]
    assert (found.principal, found.outcome, found.key, found.why) == (ALICE, "valid", fingerprint, "")
    assert dt.datetime.fromisoformat(found.expires) - dt.datetime.fromisoformat(found.signed_at) == dt.timedelta(days=7)
    approval = json.loads(bundle.read(path).approvals[ALICE][0] or b"")
    assert approval["statement"] == bundle.read(path).digest
    assert [s.outcome for s in sign.require(bundle.read(path), Organisation(signers=people.signers), NOW, None)] == ["valid"]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_other_kinds_of_keys_work(path: Path, tmp_path: Path, kind: str) -> None:
    other = key(tmp_path, kind, kind)
    signers = tmp_path / "signers"
    signers.write_text(f"x {public(other)}\n")
    signed(path, other, "x")
    assert only(path, Organisation(signers=signers)).outcome == "valid"


@pytest.fixture
def agent(people: People) -> Iterator[dict[str, str]]:
    """An ssh-agent that holds Alice's key."""
    socket = people.folder / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    environment = {**os.environ, "SSH_AUTH_SOCK": str(socket)}
    try:
        for _ in range(100):
            if subprocess.run(["ssh-add", "-q", str(people.alice)], env=environment, check=False, capture_output=True).returncode == 0:
                break
        yield {"SSH_AUTH_SOCK": str(socket)}
    finally:
        process.terminate()
        process.wait()


def test_a_key_that_only_the_agent_holds_signs_by_its_public_half(
    path: Path, people: People, agent: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = tmp_path / "alice.pub"
    shutil.copy(f"{people.alice}.pub", half)
    with pytest.raises(SignatureRefusedError, match="did not sign"):
        signed(path, half, ALICE)
    monkeypatch.setenv("SSH_AUTH_SOCK", agent["SSH_AUTH_SOCK"])
    signed(path, half, ALICE)
    assert only(path, Organisation(signers=people.signers)).outcome == "valid"


def test_a_certificate_of_the_organisations_authority_holds(path: Path, tmp_path: Path) -> None:
    authority, dora = key(tmp_path, "ca"), key(tmp_path, "dora")
    subprocess.run(["ssh-keygen", "-q", "-s", str(authority), "-I", "dora", "-n", "dora", "-V", "-1h:+1d", f"{dora}.pub"], check=True)
    signers = tmp_path / "signers"
    signers.write_text(f'dora,*@other.example cert-authority,namespaces="{sign.NAMESPACE}" {public(authority)}\n')
    signed(path, tmp_path / "dora-cert.pub", "dora")
    found = only(path, Organisation(signers=signers))
    assert (found.outcome, found.why) == ("valid", "")
    signed(path, dora, "dora")
    assert only(path, Organisation(signers=signers)).outcome == "lapsed", "the key without its certificate"


def test_signing_again_replaces_the_approval_of_the_same_name(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE, days=1)
    signed(path, people.alice, ALICE, days=9)
    assert len(bundle.read(path).approvals) == 1
    assert only(path, Organisation(signers=people.signers), NOW + dt.timedelta(days=5)).outcome == "valid"


# --- what lapses: in good order, and does not count ---------------------------------------------------------------


def test_an_approval_counts_until_the_second_it_expires(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE, days=30)
    organisation = Organisation(signers=people.signers)
    end = NOW.replace(microsecond=0) + dt.timedelta(days=30)
    assert only(path, organisation, end - dt.timedelta(seconds=1)).outcome == "valid"
    found = only(path, organisation, end)
    assert (found.outcome, "approvals/alice@example.com.json expired at 20" in found.why) == ("lapsed", True)
    with pytest.raises(SignatureMissingError, match=r"has 0 of 1 signatures\n  alice@example\.com: .* expired at"):
        sign.require(bundle.read(path), organisation, end, None)


def test_an_approval_from_the_future_does_not_count_yet(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE, now=NOW + dt.timedelta(hours=1))
    assert "signed in the future" in only(path, Organisation(signers=people.signers)).why


def test_an_approval_older_than_the_rules_allow_does_not_count(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE, days=300)
    organisation, rule = Organisation(signers=people.signers), Signatures(required=1, max_age_days=14)
    assert only(path, organisation, NOW + dt.timedelta(days=13), rule).outcome == "valid"
    assert "more than 14 days ago" in only(path, organisation, NOW + dt.timedelta(days=15), rule).why


def test_a_revoked_key_does_not_count(path: Path, people: People, tmp_path: Path) -> None:
    signed(path, people.alice, ALICE)
    plain, krl, others = tmp_path / "revoked", tmp_path / "krl", tmp_path / "others"
    plain.write_text(public(people.alice) + "\n")
    others.write_text(public(people.bob) + "\n")
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", str(krl), f"{people.alice}.pub"], check=True, capture_output=True)
    for revoked in (plain, krl):
        found = only(path, Organisation(signers=people.signers, revoked=revoked))
        assert (found.outcome, "which is revoked" in found.why) == ("lapsed", True)
    assert only(path, Organisation(signers=people.signers, revoked=others)).outcome == "valid"


def test_somebody_unknown_does_not_count(path: Path, people: People) -> None:
    signed(path, people.mallory, MALLORY)
    found = only(path, Organisation(signers=people.signers))
    assert (found.outcome, "does not have" in found.why) == ("lapsed", True)


def test_a_principal_the_rules_do_not_name_does_not_count(path: Path, people: People) -> None:
    signed(path, people.carol, CAROL)
    rule = Signatures(required=1, principals=(ALICE, BOB))
    assert "somebody whose signature does not count under the policy" in only(path, Organisation(signers=people.signers), rule=rule).why
    with pytest.raises(SignatureMissingError, match=f"must be signed by 1 of {ALICE}, {BOB}"):
        sign.require(bundle.read(path), Organisation(signers=people.signers), NOW, rule)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('namespaces="git"', "may not sign this now"),
        ('valid-before="20200101"', "accept today"),
        ('valid-after="20990101"', "accept today"),
    ],
)
def test_what_allowed_signers_says_of_a_key_is_obeyed(path: Path, people: People, tmp_path: Path, options: str, said: str) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f"{ALICE} {options} {public(people.alice)}\n")
    signed(path, people.alice, ALICE)
    found = only(path, Organisation(signers=signers))
    assert found.outcome == "lapsed"
    assert said in found.why


@pytest.mark.parametrize("suffix", ["", ".sig"])
def test_half_an_approval_does_not_count(tmp_path: Path, people: People, suffix: str) -> None:
    path = tmp_path / "x.bundle"
    bundle.write(path, files())
    signed(path, people.alice, ALICE)
    (path / f"approvals/{ALICE}.json{suffix}").unlink()
    found = only(path, Organisation(signers=people.signers))
    assert (found.principal, found.outcome, found.why) == (ALICE, "lapsed", f"approvals/{ALICE}.json{suffix} is missing")


# --- what is refused: nobody does it by accident ------------------------------------------------------------------


def refusal(path: Path, people: People) -> str:
    """One forged approval refuses the bundle although Bob's and Carol's hold."""
    organisation = Organisation(signers=people.signers)
    signed(path, people.bob, BOB)
    signed(path, people.carol, CAROL)
    with pytest.raises(SignatureRefusedError) as refused:
        sign.require(bundle.read(path), organisation, NOW, TWO)
    assert refused.value.exit_code == 2
    return refused.value.message


def test_another_namespace_is_refused(path: Path, people: People) -> None:
    by_hand(path, ALICE, people.alice, namespace="git")
    assert f"approvals/{ALICE}.json.sig was made for another purpose than gpuprov-review@v1" in refusal(path, people)


def test_the_key_of_another_principal_is_refused(path: Path, people: People) -> None:
    by_hand(path, ALICE, people.bob)
    assert f"of '{BOB}', not of {ALICE}" in refusal(path, people)


def test_an_approval_of_another_statement_is_refused(path: Path, people: People, tmp_path: Path) -> None:
    other = tmp_path / "other.bundle"
    bundle.write(other, files(old="deadline_h: 12", new="deadline_h: 13"))
    approvals = signed(other, people.alice, ALICE).approvals[ALICE]
    bundle.add(bundle.read(path), {f"approvals/{ALICE}.json": approvals[0] or b"", f"approvals/{ALICE}.json.sig": approvals[1] or b""})
    assert f"approvals/{ALICE}.json approves another statement" in refusal(path, people)


def test_the_statement_of_an_approval_is_compared_to_its_last_character(path: Path, people: People) -> None:
    digest = bundle.read(path).digest
    by_hand(path, ALICE, people.alice, statement=digest[:-1] + ("0" if digest[-1] != "0" else "1"))
    assert f"approvals/{ALICE}.json approves another statement" in refusal(path, people)


def test_an_approval_under_another_name_is_refused(path: Path, people: People) -> None:
    by_hand(path, ALICE, people.alice)
    raw, armour = bundle.read(path).approvals[ALICE]
    bundle.add(bundle.read(path), {"approvals/dave.json": raw or b"", "approvals/dave.json.sig": armour or b""})
    assert f"approvals/dave.json is an approval by '{ALICE}'" in refusal(path, people)


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": "gpuprov-approval/2"},
        {"more": "x"},
        {"expires": "2020-01-01T00:00:00Z"},
        {"expires": "never"},
        {"signed_at": "2026-02-30T00:00:00Z"},
    ],
)
def test_what_is_no_approval_is_refused_though_it_is_signed(path: Path, people: People, changed: dict[str, Any]) -> None:
    by_hand(path, ALICE, people.alice, **changed)
    assert f"approvals/{ALICE}.json is not an approval" in refusal(path, people)


@pytest.mark.parametrize("tail", [b" ", b"\n", b"\n\n"])
def test_an_approval_in_another_spelling_is_refused_though_it_is_signed(path: Path, people: People, tail: bytes) -> None:
    by_hand(path, ALICE, people.alice, tail=tail)
    assert f"approvals/{ALICE}.json is not an approval" in refusal(path, people)


def respelled(armour: str) -> dict[str, str]:
    """The same signature to a decoder that forgives."""
    head, *body, end, _ = armour.split("\n")
    whole = "".join(body)
    last = whole[-3:]
    assert last in {"A==", "Q==", "g==", "w=="}, "the last of its letters has four bits that nothing reads"
    return {
        "bits that nothing reads": armour.replace(f"{last}\n", f"{chr(ord(last[0]) + 1)}==\n"),
        "other lines": "\n".join([head, *(whole[n : n + 64] for n in range(0, len(whole), 64)), end, ""]),
        "an empty line": armour.replace("\n", "\n\n", 1),
        "other ends of lines": armour.replace("\n", "\r\n"),
        "a last word": armour + "bye\n",
        "a first word": "hello\n" + armour,
        "no end of line": armour.rstrip("\n"),
    }


@pytest.mark.parametrize("how", list(respelled("h\nAAA==\ne\n")))
def test_a_signature_in_another_spelling_is_refused(path: Path, people: People, how: str) -> None:
    by_hand(path, ALICE, people.alice)
    armour = (bundle.read(path).approvals[ALICE][1] or b"").decode()
    bundle.add(bundle.read(path), {f"approvals/{ALICE}.json.sig": respelled(armour)[how].encode()})
    assert f"approvals/{ALICE}.json.sig is not a signature of ssh-keygen" in refusal(path, people)


# --- how many -----------------------------------------------------------------------------------------------------


def test_two_of_three_are_two_and_one_of_three_is_not(path: Path, people: People) -> None:
    organisation, rule = Organisation(signers=people.signers), Signatures(required=2, principals=(ALICE, BOB, CAROL))
    with pytest.raises(SignatureMissingError, match="has 0 of 2 signatures"):
        sign.require(bundle.read(path), organisation, NOW, rule)
    signed(path, people.alice, ALICE)
    with pytest.raises(SignatureMissingError, match="has 1 of 2 signatures") as missing:
        sign.require(bundle.read(path), organisation, NOW, rule)
    assert f"{ALICE}: valid" in missing.value.message
    assert f"of {ALICE}, {BOB}, {CAROL}" in missing.value.message
    signed(path, people.carol, CAROL)
    assert len(sign.require(bundle.read(path), organisation, NOW, rule)) == 2


def test_one_key_under_two_names_is_one_person(path: Path, people: People) -> None:
    signers = people.allow(f"eve@example.com,alias* {public(people.alice)}")
    try:
        for principal in (ALICE, "eve@example.com", "alias1", "alias2"):
            signed(path, people.alice, principal)
        found = sign.judge(bundle.read(path), Organisation(signers=signers), NOW)
        assert ([s.outcome for s in found], sign.counted(found)) == (["valid"] * 4, 1)
        with pytest.raises(SignatureMissingError, match="has 1 of 2 signatures"):
            sign.require(bundle.read(path), Organisation(signers=signers), NOW, TWO)
    finally:
        people.allow()


def test_one_name_with_two_keys_is_one_signature(path: Path, people: People) -> None:
    signers = people.allow(f"{ALICE} {public(people.mallory)}")
    try:
        signed(path, people.alice, ALICE)
        signed(path, people.mallory, ALICE)
        assert sign.counted(sign.judge(bundle.read(path), Organisation(signers=signers), NOW)) == 1
    finally:
        people.allow()


# --- what cannot be done ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("principal", ["", "-f", "a b", "../x", "a/b", "*", "a\n", "é", "x" * 101, "a,b", "$(id)"])
def test_a_name_that_cannot_be_a_principal_is_refused(path: Path, people: People, principal: str) -> None:
    with pytest.raises(SignatureRefusedError, match="cannot be a principal"):
        signed(path, people.alice, principal)
    assert bundle.read(path).approvals == {}


def test_a_key_that_is_not_there_signs_nothing(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SignatureRefusedError, match="ssh-keygen did not sign"):
        signed(path, tmp_path / "no", ALICE)
    assert bundle.read(path).approvals == {}


def test_without_allowed_signers_nothing_counts(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE)
    with pytest.raises(SignatureMissingError, match="who may sign is not known"):
        sign.require(bundle.read(path), Organisation(), NOW, None)


def test_without_ssh_keygen_nothing_counts(path: Path, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    signed(path, people.alice, ALICE)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SignatureRefusedError, match="does not run"):
        sign.require(bundle.read(path), Organisation(signers=people.signers), NOW, None)


# --- one bit ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(people: People, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes], bytes]:
    """A folder for copies, the files of a bundle that two have signed, and the same packed."""
    folder = tmp_path_factory.mktemp("flips")
    path = folder / "whole.bundle"
    bundle.write(path, files())
    signed(path, people.alice, ALICE)
    signed(path, people.bob, BOB)
    made = {p.relative_to(path).as_posix(): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    raw = bundle.pack(made)
    (folder / "whole.zip").write_bytes(raw)
    sign.require(bundle.read(folder / "whole.zip"), Organisation(signers=people.signers), NOW, TWO)
    return folder, made, raw


def refused(path: Path, people: People) -> str:
    with pytest.raises(GpuprovError) as error:
        sign.require(bundle.read(path), Organisation(signers=people.signers), NOW, TWO)
    assert isinstance(error.value, BundleInvalidError | SignatureRefusedError), error.value
    return error.value.message


def flip(raw: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(raw)
    changed[at] ^= 1 << bit
    return bytes(changed)


@pytest.mark.matrix
@pytest.mark.parametrize("who", [ALICE, BOB])
def test_one_bit_flipped_in_any_byte_of_an_approval_or_its_signature_is_refused(
    pair: tuple[Path, dict[str, bytes], bytes], people: People, who: str
) -> None:
    folder, made, _ = pair
    path = folder / "flip.bundle"
    bundle.write(path, made)
    random = Random(7)  # noqa: S311 - which bit is not a secret
    for name in (f"approvals/{who}.json", f"approvals/{who}.json.sig"):
        raw = made[name]
        for at in range(0, len(raw), 2 if who == ALICE else 5):
            (path / name).write_bytes(flip(raw, at, random.randrange(8)))
            assert f"approvals/{who}.json" in refused(path, people), at
        (path / name).write_bytes(raw)
    assert len(sign.require(bundle.read(path), Organisation(signers=people.signers), NOW, TWO)) == 2


@pytest.mark.matrix
@given(st.integers(0, 10**9), st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_one_bit_flipped_anywhere_in_a_signed_zip_is_refused(
    pair: tuple[Path, dict[str, bytes], bytes], people: People, at: int, bit: int
) -> None:
    folder, _, raw = pair
    at %= len(raw)
    path = folder / "flip.zip"
    path.write_bytes(flip(raw, at, bit))
    said = refused(path, people)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        owners = [e.filename for e in archive.infolist() if e.header_offset <= at]
        assert at >= archive.start_dir or owners[-1] in said


@pytest.mark.parametrize("kind", [Odd.PIPE, Odd.ZERO, Odd.LOOP, Odd.HUGE])
@pytest.mark.parametrize("which", ["signers", "revoked"])
def test_keys_that_are_in_no_file_are_not_given_to_ssh_keygen(
    tmp_path: Path, people: People, monkeypatch: pytest.MonkeyPatch, which: str, kind: Odd
) -> None:
    bundle.write(tmp_path / "b", files())
    whole = signed(tmp_path / "b", people.alice, ALICE)
    lay(tmp_path, {"keys": kind})
    monkeypatch.setattr("provision.review.sign._keygen", lambda *_, **__: pytest.fail("ssh-keygen would read it without end"))
    organisation = Organisation(**{"signers": people.signers, which: tmp_path / "keys"})
    with pytest.raises(SignatureMissingError, match="keys: "):
        sign.judge(whole, organisation, NOW)
