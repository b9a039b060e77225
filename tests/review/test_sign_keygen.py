"""What ssh-keygen says of a signature and what is made of that, whatever it says; and what counts to the second and to the byte."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from provision.errors import SignatureMissingError, SignatureRefusedError
from provision.review import bundle, sign
from provision.review.policy import Signatures
from provision.review.sign import Signature
from provision.review.where import Organisation
from tests.review.samples import People, files, public
from tests.review.test_sign import ALICE, BOB, MALLORY, NOW, by_hand, only, signed

KEY = f"SHA256:{'k' * 43}"
GOOD = f'Good "gpuprov-review@v1" signature for {ALICE} with ED25519 key {KEY}\n'
BARE = f'Good "gpuprov-review@v1" signature with ED25519 key {KEY}\n'
STAMP = "%Y-%m-%dT%H:%M:%SZ"
NO = (255, "", "")


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People.make(tmp_path_factory.mktemp("people"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t4.bundle"
    bundle.write(path, files())
    return path


def fingerprint(key: Path) -> str:
    return subprocess.run(["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True).stdout.split()[1]


class Keygen:
    """An ssh-keygen that says what one likes."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.program = folder / "ssh-keygen"
        self.program.write_text('#!/bin/sh\ncat "$0.$2.out"\ncat "$0.$2.err" >&2\nexit "$(cat "$0.$2.code")"\n')
        self.program.chmod(0o755)
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def says(self, verb: str, code: int, out: str = "", err: str = "") -> None:
        for suffix, text in (("code", str(code)), ("out", out), ("err", err)):
            Path(f"{self.program}.{verb}.{suffix}").write_bytes(text.encode("latin-1"))


@pytest.fixture
def keygen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keygen:
    return Keygen(tmp_path / "bin", monkeypatch)


# --- what ssh-keygen says of a signature --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verify", "bare", "owners", "outcome", "key"),
    [
        ((0, GOOD, ""), NO, NO, "valid", KEY),
        ((0, GOOD, "\xff\n"), NO, NO, "valid", KEY),
        ((0, "", ""), NO, NO, "refused", ""),
        ((0, "Good\n", ""), NO, NO, "refused", ""),
        ((0, GOOD.replace(KEY, KEY[:-1]), ""), NO, NO, "refused", ""),
        ((0, GOOD.replace("\n", " or not\n"), ""), NO, NO, "refused", ""),
        ((1, GOOD, ""), (1, BARE, ""), (0, ALICE, ""), "refused", ""),
        ((1, GOOD, ""), (1, BARE, "namespace"), (0, ALICE, ""), "refused", ""),
        ((1, GOOD, ""), (0, BARE, ""), NO, "lapsed", KEY),
        ((1, GOOD, ""), (0, "", ""), NO, "lapsed", ""),
        ((1, "", "\xff\xfe"), (0, BARE, ""), (0, ALICE, ""), "lapsed", KEY),
        ((1, "", ""), (0, BARE, ""), (0, "\n", ""), "lapsed", KEY),
        ((1, "", ""), (0, BARE, ""), (0, f"{BOB}\n", ""), "refused", KEY),
        ((1, "", ""), (0, BARE, ""), (0, f"{BOB}\n{ALICE}\n", ""), "lapsed", KEY),
        ((1, "", ""), (0, BARE, ""), (0, f"{BOB},{ALICE}\n", ""), "lapsed", KEY),
        ((1, "", ""), (0, BARE, ""), (0, f"{BOB},{MALLORY}\n", ""), "refused", KEY),
        ((1, "", ""), (0, BARE, ""), (0, "*@example.com\n", ""), "lapsed", KEY),
        ((1, "", ""), (0, BARE, ""), (0, "*@example.org\n", ""), "refused", KEY),
        ((1, "", ""), (0, BARE, ""), (0, f"{ALICE.upper()}\n", ""), "refused", KEY),
    ],
)
def test_only_what_ssh_keygen_verifies_and_names_the_key_of_holds(
    path: Path,
    people: People,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    verify: tuple[int, str, str],
    bare: tuple[int, str, str],
    owners: tuple[int, str, str],
    outcome: str,
    key: str,
) -> None:
    signed(path, people.alice, ALICE)
    keygen = Keygen(tmp_path / "bin", monkeypatch)
    for verb, said in (("verify", verify), ("check-novalidate", bare), ("find-principals", owners)):
        keygen.says(verb, *said)
    found = only(path, Organisation(signers=people.signers))
    assert (found.principal, found.outcome, found.key) == (ALICE, outcome, key)
    approval = sign.unchecked(bundle.read(path))[0]
    assert (found.signed_at, found.expires) == (approval.signed_at, approval.expires)
    assert (f"approvals/{ALICE}.json.sig " in found.why, "None" in found.why) == (outcome != "valid", False)


def test_what_ssh_keygen_says_is_shown_short_and_in_one_line(
    path: Path, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed(path, people.alice, ALICE)
    keygen = Keygen(tmp_path / "bin", monkeypatch)
    keygen.says("check-novalidate", 0, BARE)
    keygen.says("find-principals", 0, ALICE)
    for said, shown in ((f"\x1b{'x' * 300}\nmore", "\\x1b" + "x" * 196), ("short\n", "short"), ("", "no message")):
        keygen.says("verify", 1, "", said)
        assert only(path, Organisation(signers=people.signers)).why.endswith(f": {shown}")
    keygen.says("find-principals", 0, f"{'o' * 300}\n")
    assert f" {'o' * 200!r}, " in only(path, Organisation(signers=people.signers)).why
    keygen.says("find-principals", 0, "bob\neve\n")
    assert "'bob, eve'" in only(path, Organisation(signers=people.signers)).why


def test_every_question_to_ssh_keygen_has_an_end(path: Path, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    signed(path, people.mallory, MALLORY)
    genuine, asked = subprocess.run, []

    def run(command: list[str], **settings: Any) -> Any:
        asked.append(settings["timeout"])
        return genuine(command, **settings)

    monkeypatch.setattr(subprocess, "run", run)
    assert only(path, Organisation(signers=people.signers)).outcome == "lapsed"
    assert (len(asked), set(asked)) == (3, {30})

    def never(command: list[str], **settings: Any) -> Any:
        raise subprocess.TimeoutExpired(command, settings["timeout"])

    monkeypatch.setattr(subprocess, "run", never)
    with pytest.raises(SignatureRefusedError) as refused:
        only(path, Organisation(signers=people.signers))
    assert (bool(refused.value.hint), "None" in refused.value.message) == (True, False)


# --- what ssh-keygen makes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["it fails", "it says nothing", "it says more", "it says no text", "it is not there"])
def test_what_ssh_keygen_did_not_sign_is_not_added(
    path: Path, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    armour = sign.signature_of(b"x", key=people.alice, namespace=sign.NAMESPACE).decode()
    outs = {"it fails": armour, "it says more": f"{armour}more", "it says no text": "\xff"}
    keygen = Keygen(tmp_path / "bin", monkeypatch)
    keygen.says("sign", int(fault == "it fails"), outs.get(fault, ""))
    if fault == "it is not there":
        monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SignatureRefusedError) as refused:
        signed(path, people.alice, ALICE)
    assert (bool(refused.value.hint), bundle.read(path).approvals) == (True, {})
    assert (str(people.alice) in refused.value.message, "None" in refused.value.message) == (fault != "it is not there", False)


@pytest.mark.parametrize(("settings", "said"), [({}, "touch your key\n"), ({"quiet": False}, "touch your key\n"), ({"quiet": True}, "")])
def test_ssh_keygen_speaks_to_whoever_signs_but_not_for_a_key_of_our_own(
    people: People, keygen: Keygen, capfd: pytest.CaptureFixture[str], settings: dict[str, bool], said: str
) -> None:
    keygen.says("sign", 1, "", "touch your key\n")
    with pytest.raises(SignatureRefusedError):
        sign.signature_of(b"x", key=people.alice, namespace="x", **settings)
    assert capfd.readouterr().err == said


def test_a_signature_is_over_these_bytes_for_this_purpose(people: People, tmp_path: Path) -> None:
    (tmp_path / "made.sig").write_bytes(sign.signature_of(b"these", key=people.alice, namespace="a-purpose"))
    for raw, namespace, code in ((b"these", "a-purpose", 0), (b"those", "a-purpose", 255), (b"these", "another", 255)):
        command = ["ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", str(tmp_path / "made.sig")]
        assert subprocess.run(command, input=raw, capture_output=True, check=False).returncode == code


@pytest.mark.usefixtures("far_from_utc")
def test_an_approval_is_of_the_second_in_utc_whatever_the_zone(path: Path, people: People) -> None:
    zone = dt.timezone(dt.timedelta(hours=14))
    made = sign.sign(bundle.read(path), key=people.alice, principal=ALICE, days=7, now=NOW.astimezone(zone))
    assert (made.principal, made.statement) == (ALICE, bundle.read(path).digest)
    assert (made.signed_at, made.expires) == (NOW.strftime(STAMP), (NOW + dt.timedelta(days=7)).strftime(STAMP))
    raw, armour = bundle.read(path).approvals[ALICE]
    assert (raw, bool(armour)) == (bundle.canonical(made.model_dump(by_alias=True)), True)


# --- to the second, and to the byte -------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead_s", "outcome"), [(600, "valid"), (601, "lapsed")])
def test_a_clock_may_be_ten_minutes_ahead_and_no_second_more(path: Path, people: People, ahead_s: int, outcome: str) -> None:
    now = NOW.replace(microsecond=0)
    signed(path, people.alice, ALICE, now=now + dt.timedelta(seconds=ahead_s))
    found = only(path, Organisation(signers=people.signers), now)
    assert (found.outcome, found.key) == (outcome, fingerprint(people.alice))


@pytest.mark.parametrize(("lasts_s", "outcome"), [(-1, "refused"), (0, "refused"), (1, "valid")])
def test_an_approval_lasts_a_second_at_least(path: Path, people: People, lasts_s: int, outcome: str) -> None:
    by_hand(path, ALICE, people.alice, expires=(NOW + dt.timedelta(seconds=lasts_s)).strftime(STAMP))
    assert only(path, Organisation(signers=people.signers), NOW.replace(microsecond=0)).outcome == outcome


@pytest.mark.parametrize("raw", [b"[" * 16_000, b"\xff", b"null\n", b"[]\n", b"{}\n", b""])
def test_what_is_no_approval_is_refused_and_says_nothing_of_itself(path: Path, people: People, raw: bytes) -> None:
    signed(path, people.alice, ALICE)
    bundle.add(bundle.read(path), {f"approvals/{ALICE}.json": raw})
    found = only(path, Organisation(signers=people.signers))
    assert (found.principal, found.outcome, found.key, found.signed_at, found.expires) == (ALICE, "refused", "", "", "")
    [told] = sign.unchecked(bundle.read(path))
    assert (told.principal, told.outcome, told.key, told.signed_at, told.expires) == (ALICE, "unchecked", "", "", "")
    assert told.why


@pytest.mark.parametrize("body", ["A", "A===", "AA=", "====", "AA==AAAA", "AAA=A", "AAAA AAA"])
def test_a_signature_that_is_no_base64_is_refused_and_not_given_to_ssh_keygen(
    path: Path, people: People, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    signed(path, people.alice, ALICE)
    armour = f"-----BEGIN SSH SIGNATURE-----\n{body}\n-----END SSH SIGNATURE-----\n".encode()
    bundle.add(bundle.read(path), {f"approvals/{ALICE}.json.sig": armour})
    monkeypatch.setenv("PATH", "/nonexistent")
    assert only(path, Organisation(signers=people.signers)).outcome == "refused"


def test_the_name_in_a_forged_approval_is_shown_short(path: Path, people: People) -> None:
    made = sign.sign(bundle.read(path), key=people.alice, principal=ALICE, days=1, now=NOW)
    forged = made.model_copy(update={"principal": "x" * 300}).model_dump(by_alias=True)
    bundle.add(bundle.read(path), {f"approvals/{ALICE}.json": bundle.canonical(forged)})
    found = only(path, Organisation(signers=people.signers))
    assert (found.principal, found.outcome, found.key, found.expires) == (ALICE, "refused", "", made.expires)
    assert found.why.endswith(f" {'x' * 100!r}")


@pytest.mark.parametrize("which", ["signers", "revoked"])
def test_a_file_of_keys_may_have_4_mib_and_no_byte_more(path: Path, people: People, tmp_path: Path, which: str) -> None:
    signed(path, people.alice, ALICE)
    text = people.signers.read_bytes() if which == "signers" else public(people.bob).encode() + b"\n"
    keys = tmp_path / "keys"
    keys.write_bytes(text + b"#\n" * ((4 << 20) // 2 - len(text) // 2 - 1))
    keys.write_bytes(keys.read_bytes() + b"\n" * ((4 << 20) - keys.stat().st_size))
    organisation = Organisation(**{"signers": people.signers, which: keys})
    assert (keys.stat().st_size, only(path, organisation).outcome) == (4 << 20, "valid")
    keys.write_bytes(keys.read_bytes() + b"\n")
    with pytest.raises(SignatureMissingError) as missing:
        only(path, organisation)
    assert (str(keys) in missing.value.message, bool(missing.value.hint)) == (True, True)


# --- who counts ---------------------------------------------------------------------------------------------------


def test_a_revoked_key_is_told_from_one_that_may_not_sign_for_another_reason(path: Path, people: People, tmp_path: Path) -> None:
    signed(path, people.alice, ALICE)
    revoked, signers = tmp_path / "revoked", tmp_path / "signers"
    revoked.write_text(public(people.alice) + "\n")
    found = only(path, Organisation(signers=people.signers, revoked=revoked))
    assert (found.outcome, found.key, "which is revoked" in found.why) == ("lapsed", fingerprint(people.alice), True)
    revoked.write_text(public(people.bob) + "\n")
    signers.write_text(f'{ALICE} namespaces="git" {public(people.alice)}\n')
    for organisation in (Organisation(signers=signers), Organisation(signers=signers, revoked=revoked)):
        found = only(path, organisation)
        assert (found.outcome, found.key, "which is revoked" in found.why) == ("lapsed", fingerprint(people.alice), False)


def test_what_is_missing_is_said_with_who_may_sign_and_what_each_signature_is_worth(path: Path, people: People) -> None:
    signed(path, people.alice, ALICE)
    signed(path, people.mallory, MALLORY)
    organisation, reviewed = Organisation(signers=people.signers), bundle.read(path)
    for rule in (Signatures(required=2), Signatures(required=2, principals=(ALICE, BOB))):
        with pytest.raises(SignatureMissingError) as missing:
            sign.require(reviewed, organisation, NOW, rule)
        head, *lines = missing.value.message.splitlines()
        assert (str(path) in head, BOB in head) == (True, rule.principals is not None)
        assert [line.partition(":")[0] for line in lines] == [f"  {ALICE}", f"  {MALLORY}"]
        assert (fingerprint(people.alice) in lines[0], str(path) in missing.value.hint) == (True, True)


def test_only_what_holds_is_counted_and_each_key_once() -> None:
    some = [Signature("a", "valid", "1"), Signature("b", "valid", "1"), Signature("c", "valid", "2"), Signature("d", "lapsed", "3")]
    assert (sign.counted(some), sign.counted(some[3:]), sign.counted([])) == (2, 0, 0)
    assert sign.counted([Signature("e", "refused", "4"), Signature("f", "unchecked", "5")]) == 0
