"""OpenSSH signatures over a bundle's statement: ssh-keygen signs and verifies, so that agents, hardware keys and certificates work.

What is signed is an approval: who approves which statement, when, and until when. A signature is `valid`; or it has `lapsed`, because it is
genuine and does not count now; or it is `refused`, because nobody makes such a signature by accident; or it is `unchecked`, because this
machine does not know who may sign. One refused signature refuses the bundle, whoever else has signed.
"""

import base64
import binascii
import datetime as dt
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints, ValidationError

from provision.errors import SignatureMissingError, SignatureRefusedError
from provision.paths import read_bounded
from provision.review.bundle import PRINCIPAL, Bundle, StrictRecord, add, canonical
from provision.review.policy import Signatures
from provision.review.where import Organisation
from provision.structs import Struct

NAMESPACE: Final = "gpuprov-review@v1"
_MOST_KEYS: Final = 4 << 20  # of signers, or of revoked keys
_TIMEOUT_S: Final = 30  # to verify; signing has none, because it may wait for a touch of a hardware key
_SKEW: Final = dt.timedelta(minutes=10)  # how far another machine's clock may be ahead
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_FINGERPRINT: Final = re.compile(r" key (SHA256:[A-Za-z0-9+/]{43})$")
_ARMOUR: Final = re.compile(r"-----BEGIN SSH SIGNATURE-----\n((?:[A-Za-z0-9+/=]{1,76}\n)+)-----END SSH SIGNATURE-----\n")

Validity = Literal["valid", "lapsed", "refused", "unchecked"]
Time = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]


class Approval(StrictRecord):
    """What a signature is made over."""

    schema_version: Annotated[Literal["gpuprov-approval/1"], Field(alias="schema")]
    statement: str
    principal: str
    signed_at: Time
    expires: Time


class Signature(Struct):
    """One approval of a bundle with its verdict.

    Attributes:
        key: the fingerprint; empty where it could not be read from a genuine signature.
        signed_at, expires: ISO 8601 in UTC; empty where they cannot be read.
        why: what is wrong, with the name of the file; empty when the signature is valid.
    """

    principal: str
    outcome: Validity
    key: str = ""
    signed_at: str = ""
    expires: str = ""
    why: str = ""


def sign(bundle: Bundle, *, key: Path, principal: str, days: int, now: dt.datetime) -> Approval:
    """Approve a bundle in the name of a principal, and add the approval to it; an earlier one of the same name is replaced.

    Args:
        bundle: the bundle, just read.
        key: a private key, or the public half of one in an agent or a hardware token. ssh-keygen asks for a passphrase or a touch.
        principal: the name under which `allowed_signers` has the key.
        days: how long the approval counts.
        now: the time, with its zone.

    Raises:
        SignatureRefusedError: the name cannot be a principal, or ssh-keygen did not sign.
        BundleInvalidError: the disk refuses.
    """
    if not re.fullmatch(PRINCIPAL, principal):
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
    raw = canonical(approval.model_dump(by_alias=True))
    name = f"approvals/{principal}.json"
    add(bundle, {f"{name}.sig": signature_of(raw, key=key, namespace=NAMESPACE), name: raw})
    return approval


def signature_of(raw: bytes, *, key: Path, namespace: str, quiet: bool = False) -> bytes:
    """An OpenSSH signature over some bytes, in armour.

    Args:
        raw: what is signed.
        key: a private key, or the public half of one in an agent or a hardware token.
        namespace: what the signature is for; it holds for nothing else.
        quiet: ask nothing and say nothing, for a key of our own.

    Raises:
        SignatureRefusedError: ssh-keygen did not sign.
    """
    command = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", str(key)]
    try:
        # Its questions and its messages go to the terminal.
        process = subprocess.run(command, input=raw, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quiet else None, check=False)
    except OSError as error:
        raise _no_keygen(error) from error
    if process.returncode or not _ARMOUR.fullmatch(process.stdout.decode(errors="replace")):
        msg = f"ssh-keygen did not sign with {key}"
        raise SignatureRefusedError(msg, hint="see its message above; name a private key, or the .pub file of one in your agent")
    return process.stdout


def judge(bundle: Bundle, organisation: Organisation, now: dt.datetime, rule: Signatures | None = None) -> tuple[Signature, ...]:
    """Verify every approval of a bundle, in the order of the principals; `rule` says whose signatures count, and for how long.

    Raises:
        SignatureMissingError: this machine does not know who may sign.
    """
    if organisation.signers is None:
        msg = "who may sign is not known: there is no allowed_signers file"
        raise SignatureMissingError(msg, hint="name it with --signers or GPUPROV_SIGNERS, or put it at /etc/gpuprov/allowed_signers")
    for path in (organisation.signers, organisation.revoked):
        _check_readable(path)
    verifier = _Verifier(bundle.digest, organisation.signers, organisation.revoked, now, rule)
    return tuple(verifier.judge(principal, *pair) for principal, pair in bundle.approvals.items())


def _check_readable(path: Path | None) -> None:
    """Refuse a file that ssh-keygen would read without end: a device, a pipe, or gigabytes."""
    try:
        if path is not None:
            read_bounded(path, _MOST_KEYS)
    except OSError as error:
        msg = f"who may sign is not known: cannot read {path}: {error.strerror}"
        raise SignatureMissingError(msg, hint="name a file of keys with --signers and --revoked") from error


def counted(signatures: Sequence[Signature]) -> int:
    """How many people have signed, counted by keys: one key is one person, whatever its names."""
    return len({signature.key for signature in signatures if signature.outcome == "valid"})


def require(bundle: Bundle, organisation: Organisation, now: dt.datetime, rule: Signatures | None) -> tuple[Signature, ...]:
    """Return the signatures of a bundle if enough people have signed it; without a rule one is enough.

    Raises:
        SignatureRefusedError: one of them is forged.
        SignatureMissingError: too few hold.
    """
    signatures = judge(bundle, organisation, now, rule)
    refuse(bundle, signatures)
    needed = rule.required if rule else 1
    count = counted(signatures)
    if count < needed:
        lines = [f"  {signature.principal}: {signature.why or f'valid ({signature.key})'}" for signature in signatures]
        whose = f"; it must be signed by {needed} of {', '.join(rule.principals)}" if rule and rule.principals else ""
        msg = "\n".join([f"{bundle.path} has {count} of {needed} signatures{whose}", *lines])
        raise SignatureMissingError(msg, hint=f"`gpuprov sign {bundle.path} --key FILE --as NAME` signs it")
    return signatures


def refuse(bundle: Bundle, signatures: Sequence[Signature]) -> None:
    """Raise if one of the signatures is forged.

    Raises:
        SignatureRefusedError: with the forged signatures.
    """
    forged = [signature for signature in signatures if signature.outcome == "refused"]
    if forged:
        msg = "\n".join([f"{bundle.path} was tampered with", *(f"  {signature.why}" for signature in forged)])
        raise SignatureRefusedError(msg, hint="ask the signers for the bundle again, or sign it again")


def unchecked(bundle: Bundle) -> tuple[Signature, ...]:
    """The approvals of a bundle as they describe themselves, where nobody can verify them: none of them holds."""
    why = "not checked: there is no allowed_signers file here"
    approvals = {principal: raw and _approval(raw) for principal, (raw, _) in bundle.approvals.items()}
    return tuple(Signature(principal, "unchecked", **_times(approval or None), why=why) for principal, approval in approvals.items())


def _times(approval: Approval | None) -> dict[str, str]:
    return {"signed_at": approval.signed_at, "expires": approval.expires} if approval else {}


class _Verifier(Struct):
    """Verifies the approvals of one statement; `revoked` and `rule` as in `judge`."""

    statement: str
    signers: Path
    revoked: Path | None
    now: dt.datetime
    rule: Signatures | None

    def judge(self, principal: str, raw: bytes | None, armour: bytes | None) -> Signature:
        name = f"approvals/{principal}.json"
        if raw is None or armour is None:
            return Signature(principal, "lapsed", why=f"{name if raw is None else name + '.sig'} is missing")
        approval = _approval(raw)
        if approval is None:
            return Signature(principal, "refused", why=f"{name} is not an approval")
        times = _times(approval)
        problem = ""
        if approval.principal != principal:
            problem = f"{name} is an approval by {approval.principal[:100]!a}"
        elif approval.statement != self.statement:
            problem = f"{name} approves another statement than this bundle's"
        elif not _is_armour(armour):
            problem = f"{name}.sig is not a signature of ssh-keygen"
        if problem:
            return Signature(principal, "refused", **times, why=problem)
        with tempfile.NamedTemporaryFile(prefix="gpuprov-", suffix=".sig") as file:
            file.write(armour)
            file.flush()
            validity, key, why = self._verify(raw, Path(file.name), principal)
        if validity != "valid":
            return Signature(principal, validity, key, **times, why=f"{name}.sig {why}")
        why = self._lapsed(approval)
        return Signature(principal, "lapsed" if why else "valid", key, **times, why=why and f"{name} {why}")

    def _lapsed(self, approval: Approval) -> str:
        """Why a genuine signature does not count now; empty when it does."""
        signed_at, rule = _time(approval.signed_at), self.rule
        if signed_at > self.now + _SKEW:
            return f"was signed in the future ({approval.signed_at})"
        if self.now >= _time(approval.expires):
            return f"expired at {approval.expires}"
        if rule and rule.max_age_days is not None and self.now - signed_at > dt.timedelta(days=rule.max_age_days):
            return f"was signed at {approval.signed_at}, more than {rule.max_age_days} days ago"
        if rule and rule.principals is not None and approval.principal not in rule.principals:
            return "is by somebody whose signature does not count under the policy"
        return ""

    def _verify(self, raw: bytes, armour: Path, principal: str) -> tuple[Validity, str, str]:
        """What ssh-keygen says about one signature: its validity, the fingerprint of the key, and what is wrong."""
        signer = ["-f", str(self.signers), "-I", principal]
        revoked = ["-r", str(self.revoked)] if self.revoked else []
        verified = _keygen("verify", armour, *signer, "-n", NAMESPACE, *revoked, stdin=raw)
        if verified.returncode == 0:
            match = _FINGERPRINT.search(verified.stdout.strip())
            return ("valid", match[1], "") if match else ("refused", "", "is of a key that ssh-keygen does not name")
        # The rest only finds the reason: nothing below makes a signature hold.
        bare = _keygen("check-novalidate", armour, "-n", NAMESPACE, stdin=raw)
        if bare.returncode:
            # ssh-keygen has the same exit status for both, so that its message is all there is to tell them apart.
            if "namespace" in bare.stderr:
                return "refused", "", f"was made for another purpose than {NAMESPACE}"
            return "refused", "", "does not match its approval"
        match = _FINGERPRINT.search(bare.stdout.strip())
        key = match[1] if match else ""
        if revoked and _keygen("verify", armour, *signer, "-n", NAMESPACE, stdin=raw).returncode == 0:
            return "lapsed", key, f"is of the key {key}, which is revoked"
        owners = re.split(r"[,\s]+", _keygen("find-principals", armour, "-f", str(self.signers)).stdout.strip())
        if owners[0] and not any(fnmatchcase(principal, owner) for owner in owners):
            return "refused", key, f"is of the key {key} of {', '.join(owners)[:200]!a}, not of {principal}"
        if owners[0]:
            return "lapsed", key, f"is of the key {key}, which may not sign this now: {_first_line(verified.stderr)}"
        return "lapsed", key, f"is of the key {key}, which {self.signers} does not have or does not accept today"


def _approval(raw: bytes) -> Approval | None:
    """The approval, if the bytes are one in canonical form."""
    try:
        data = json.loads(raw)
        approval = Approval.model_validate(data)
        if canonical(data) != raw or _time(approval.expires) <= _time(approval.signed_at):
            return None
    except (ValueError, ValidationError, RecursionError):
        return None
    return approval


def _time(text: str) -> dt.datetime:
    return dt.datetime.strptime(text, _TIME).replace(tzinfo=dt.UTC)


def _is_armour(armour: bytes) -> bool:
    """Whether a signature has the exact form that ssh-keygen writes: a lenient decoder would miss a flipped bit."""
    match = _ARMOUR.fullmatch(armour.decode("latin-1"))
    if match is None:
        return False
    body = match[1].replace("\n", "")
    try:
        plain = base64.b64decode(body, validate=True)
    except binascii.Error:
        return False
    return base64.b64encode(plain).decode() == body and match[1] == "".join(f"{body[n : n + 70]}\n" for n in range(0, len(body), 70))


def _keygen(verb: str, armour: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    try:
        command = ["ssh-keygen", "-Y", verb, *words, "-s", str(armour)]
        process = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_keygen(error) from error
    texts = [text.decode(errors="replace") for text in (process.stdout, process.stderr)]
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def _first_line(text: str) -> str:
    """The first line of ssh-keygen's message, short and inert."""
    return ascii(next(iter(text.splitlines()), "no message"))[1:-1][:200]


def _no_keygen(error: Exception) -> SignatureRefusedError:
    return SignatureRefusedError(f"ssh-keygen does not run: {error}", hint="install OpenSSH 8.9 or newer (package openssh-client)")
