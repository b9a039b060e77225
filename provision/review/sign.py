"""OpenSSH signatures over a bundle's statement: ssh-keygen signs and verifies, so that agents, hardware keys and certificates work.

What is signed is an approval: who, which statement, when, until when. Outcomes: `holds`; `lapsed`, a signature in good order that does not
count now; `refused`, one that nobody makes by accident. A refused one refuses the bundle, whoever else has signed. `unchecked` is one
that nobody could look at, because who may sign is not known here.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from provision.errors import SignatureMissingError, SignatureRefusedError
from provision.review import bundle as bundles
from provision.review.bundle import Bundle
from provision.review.policy import Signatures
from provision.review.where import Organisation

__all__ = ["NAMESPACE", "Outcome", "Signature", "counted", "judge", "refuse", "require", "sign", "unchecked"]

NAMESPACE: Final = "gpuprov-review@v1"
_TIMEOUT_S: Final = 30  # to verify; signing waits for a finger on a hardware key
_SKEW: Final = dt.timedelta(minutes=10)  # how far another machine's clock may be ahead
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_FINGERPRINT: Final = re.compile(r" key (SHA256:[A-Za-z0-9+/]{43})$")
_ARMOUR: Final = re.compile(r"-----BEGIN SSH SIGNATURE-----\n((?:[A-Za-z0-9+/=]{1,76}\n)+)-----END SSH SIGNATURE-----\n")

Outcome = Literal["holds", "lapsed", "refused", "unchecked"]
Time = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class Approval(BaseModel):
    """What a signature is made over."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    schema_version: Annotated[Literal["gpuprov-approval/1"], Field(alias="schema")]
    statement: str
    principal: str
    signed_at: Time
    expires: Time


@dataclass(frozen=True, slots=True)
class Signature:
    """One approval of a bundle, judged.

    Attributes:
        key: the fingerprint; empty where the signature does not hold.
        signed_at, expires: ISO 8601 in UTC; empty where they cannot be read.
        why: what is wrong with it, naming the file; empty when it holds.
    """

    principal: str
    outcome: Outcome
    key: str = ""
    signed_at: str = ""
    expires: str = ""
    why: str = ""


def sign(bundle: Bundle, *, key: Path, principal: str, days: int, now: dt.datetime) -> Approval:
    """Approve a bundle where it lies, in the name of a principal; an earlier approval of the same name is replaced.

    Args:
        bundle: as read just now.
        key: a private key, or the public half of one that an agent or a hardware token holds. ssh-keygen asks for what it needs.
        principal: the name under which `allowed_signers` has the key.
        days: how long the approval counts.
        now: the time, with its zone.

    Raises:
        SignatureRefusedError: the name cannot be one, or ssh-keygen did not sign.
        BundleInvalidError: the disk refuses.
    """
    if not re.fullmatch(bundles.PRINCIPAL, principal):
        msg = f"{principal!a} cannot be a principal"
        raise SignatureRefusedError(msg, hint="write it as in allowed_signers: a name or an e-mail address, without spaces and wildcards")
    now = now.astimezone(dt.UTC)
    approval = Approval.model_validate(
        {
            "schema": "gpuprov-approval/1",
            "statement": bundle.digest,
            "principal": principal,
            "signed_at": now.strftime(_TIME),
            "expires": (now + dt.timedelta(days=days)).strftime(_TIME),
        }
    )
    raw = bundles.canonical(approval.model_dump(by_alias=True))
    command = ["ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key)]
    try:
        # Its questions (a passphrase, a touch) go to the terminal, and so does what it says.
        done = subprocess.run(command, input=raw, stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise _no_keygen(error) from error
    if done.returncode or not _ARMOUR.fullmatch(done.stdout.decode(errors="replace")):
        msg = f"ssh-keygen did not sign with {key}"
        raise SignatureRefusedError(msg, hint="what it said stands above; name a private key, or the .pub of one that your agent holds")
    name = f"approvals/{principal}.json"
    bundles.add(bundle, {f"{name}.sig": done.stdout, name: raw})
    return approval


def judge(bundle: Bundle, organisation: Organisation, now: dt.datetime, rule: Signatures | None = None) -> tuple[Signature, ...]:
    """Every approval of a bundle, judged; by principal.

    Args:
        bundle: whose digests hold.
        organisation: who may sign, and which keys are revoked.
        now: the time, with its zone.
        rule: what the policy adds: whose signatures count, and for how long.

    Raises:
        SignatureMissingError: nobody says who may sign.
        SignatureRefusedError: this machine cannot verify signatures.
    """
    if organisation.signers is None:
        msg = "who may sign is not known: there is no allowed_signers file"
        raise SignatureMissingError(msg, hint="name it with --signers or GPUPROV_SIGNERS, or put it at /etc/gpuprov/allowed_signers")
    return tuple(
        _judge_one(bundle, principal, pair, organisation=organisation, now=now, rule=rule) for principal, pair in bundle.approvals.items()
    )


def counted(signatures: Sequence[Signature]) -> int:
    """How many people have signed: by keys, because one key is one person whatever names it goes by."""
    return len({signature.key for signature in signatures if signature.outcome == "holds"})


def require(bundle: Bundle, organisation: Organisation, now: dt.datetime, rule: Signatures | None) -> tuple[Signature, ...]:
    """The signatures of a bundle that enough people have signed; without a rule one is enough.

    Raises:
        SignatureRefusedError: one of them is no honest one.
        SignatureMissingError: too few hold.
    """
    signatures = judge(bundle, organisation, now, rule)
    refuse(bundle, signatures)
    needed = rule.required if rule else 1
    have = counted(signatures)
    if have < needed:
        names = [f"  {s.principal}: {s.why or f'holds ({s.key})'}" for s in signatures]
        wanted = f"; it must be signed by {needed} of {', '.join(rule.principals)}" if rule and rule.principals else ""
        msg = "\n".join([f"{bundle.path} has {have} of {needed} signatures{wanted}", *names])
        raise SignatureMissingError(msg, hint=f"`gpuprov sign {bundle.path} --key FILE --as NAME` signs it")
    return signatures


def refuse(bundle: Bundle, signatures: Sequence[Signature]) -> None:
    """See that none of a bundle's signatures is a forged one.

    Raises:
        SignatureRefusedError: one is.
    """
    refused = [signature for signature in signatures if signature.outcome == "refused"]
    if refused:
        msg = "\n".join([f"{bundle.path} was tampered with", *(f"  {signature.why}" for signature in refused)])
        raise SignatureRefusedError(msg, hint="ask for the bundle again from who signed it, or sign it again")


def unchecked(bundle: Bundle) -> tuple[Signature, ...]:
    """What the approvals of a bundle say of themselves, where nobody says who may sign: none of them holds."""
    found = []
    for principal, (raw, _) in bundle.approvals.items():
        said = _approval(raw) if raw is not None else None
        times = {"signed_at": said.signed_at, "expires": said.expires} if said else {}
        found.append(Signature(principal, "unchecked", **times, why="not checked: there is no allowed_signers file here"))
    return tuple(found)


def _judge_one(
    bundle: Bundle,
    principal: str,
    pair: tuple[bytes | None, bytes | None],
    *,
    organisation: Organisation,
    now: dt.datetime,
    rule: Signatures | None,
) -> Signature:
    name = f"approvals/{principal}.json"
    raw, armour = pair
    if raw is None or armour is None:
        return Signature(principal, "lapsed", why=f"{name if raw is None else name + '.sig'} is missing")
    approval = _approval(raw)
    if approval is None:
        return Signature(principal, "refused", why=f"{name} is no approval")
    times = {"signed_at": approval.signed_at, "expires": approval.expires}
    if approval.principal != principal:
        return Signature(principal, "refused", **times, why=f"{name} is an approval by {approval.principal[:100]!a}")
    if approval.statement != bundle.digest:
        return Signature(principal, "refused", **times, why=f"{name} approves another statement than this bundle's")
    if not _is_armour(armour):
        return Signature(principal, "refused", **times, why=f"{name}.sig is no signature of ssh-keygen")
    with tempfile.NamedTemporaryFile(prefix="gpuprov-", suffix=".sig") as file:
        file.write(armour)
        file.flush()
        outcome, key, why = _verify(raw, Path(file.name), principal, organisation)
    if outcome != "holds":
        return Signature(principal, outcome, key, **times, why=f"{name}.sig {why}")
    why = _lapsed(approval, now, rule)
    return Signature(principal, "lapsed" if why else "holds", key, **times, why=why and f"{name} {why}")


def _approval(raw: bytes) -> Approval | None:
    """The approval, if it is one in its one spelling."""
    try:
        data = json.loads(raw)
        approval = Approval.model_validate(data)
        if bundles.canonical(data) != raw or _time(approval.expires) <= _time(approval.signed_at):
            return None
    except (ValueError, ValidationError, RecursionError):
        return None
    return approval


def _time(text: str) -> dt.datetime:
    return dt.datetime.strptime(text, _TIME).replace(tzinfo=dt.UTC)


def _lapsed(approval: Approval, now: dt.datetime, rule: Signatures | None) -> str:
    """Why a signature in good order does not count now; empty when it does."""
    signed_at, expires = _time(approval.signed_at), _time(approval.expires)
    if signed_at > now + _SKEW:
        return f"was signed in the future ({approval.signed_at})"
    if now >= expires:
        return f"expired at {approval.expires}"
    if rule and rule.max_age_days is not None and now - signed_at > dt.timedelta(days=rule.max_age_days):
        return f"was signed at {approval.signed_at}, more than {rule.max_age_days} days ago"
    if rule and rule.principals is not None and approval.principal not in rule.principals:
        return "is by nobody whose signature the policy asks for"
    return ""


def _is_armour(armour: bytes) -> bool:
    """Whether a signature is spelled as ssh-keygen spells it: a decoder would forgive what a flipped bit does."""
    found = _ARMOUR.fullmatch(armour.decode("latin-1"))
    if found is None:
        return False
    body = found[1].replace("\n", "")
    try:
        plain = base64.b64decode(body, validate=True)
    except binascii.Error:
        return False
    return base64.b64encode(plain).decode() == body and found[1] == "".join(f"{body[n : n + 70]}\n" for n in range(0, len(body), 70))


def _verify(raw: bytes, armour: Path, principal: str, organisation: Organisation) -> tuple[Outcome, str, str]:
    """What ssh-keygen says of one signature: the outcome, the key's fingerprint, and what is wrong."""
    assert organisation.signers is not None  # noqa: S101 - `judge` asked
    who = ["-f", str(organisation.signers), "-I", principal]
    revoked = ["-r", str(organisation.revoked)] if organisation.revoked else []
    verified = _keygen("verify", armour, *who, "-n", NAMESPACE, *revoked, stdin=raw)
    if verified.returncode == 0:
        found = _FINGERPRINT.search(verified.stdout.strip())
        return ("holds", found[1], "") if found else ("refused", "", "is of a key that ssh-keygen does not name")
    # Only the words are sought from here on: nothing below makes a signature hold.
    bare = _keygen("check-novalidate", armour, "-n", NAMESPACE, stdin=raw)
    if bare.returncode:
        if "namespace" in bare.stderr:
            return "refused", "", f"was made for another purpose than {NAMESPACE}"
        return "refused", "", "does not hold for its approval"
    found = _FINGERPRINT.search(bare.stdout.strip())
    key = found[1] if found else ""
    if revoked and _keygen("verify", armour, *who, "-n", NAMESPACE, stdin=raw).returncode == 0:
        return "lapsed", key, f"is of the key {key}, which is revoked"
    owners = re.split(r"[,\s]+", _keygen("find-principals", armour, "-f", str(organisation.signers)).stdout.strip())
    if owners[0] and not any(fnmatchcase(principal, owner) for owner in owners):
        return "refused", key, f"is of the key {key} of {', '.join(owners)[:200]!a}, not of {principal}"
    if owners[0]:
        return "lapsed", key, f"is of the key {key}, which may not sign this now: {_said(verified.stderr)}"
    return "lapsed", key, f"is of the key {key}, which {organisation.signers} does not know (or not today)"


def _keygen(verb: str, armour: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    try:
        command = ["ssh-keygen", "-Y", verb, *words, "-s", str(armour)]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_keygen(error) from error
    texts = [text.decode(errors="replace") for text in (done.stdout, done.stderr)]
    return subprocess.CompletedProcess(command, done.returncode, *texts)


def _said(text: str) -> str:
    """The first line that ssh-keygen said, short and inert."""
    return ascii(next(iter(text.splitlines()), "no word"))[1:-1][:200]


def _no_keygen(error: Exception) -> SignatureRefusedError:
    return SignatureRefusedError(f"ssh-keygen does not run: {error}", hint="install OpenSSH 8.9 or newer (package openssh-client)")
