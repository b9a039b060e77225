"""Host keys from a console's text or an agent's answer, written to a known_hosts file of our own before the first connection."""

import base64
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from provision.errors import UsageError
from provision.paths import lock_of, text_of, write_whole

# cloud-init prints the public keys between these lines (cloudinit/config/cc_keys_to_console.py and tools/write-ssh-key-fingerprints).
_BLOCK = re.compile(r"-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----", re.DOTALL)
_PRIVATE = re.compile(r"-----BEGIN OPENSSH PRIVATE KEY-----\n")
_KEY = re.compile(r"(ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa) ([A-Za-z0-9+/]{40,1400}={0,2})(?![A-Za-z0-9+/=])")


def parse_console(text: str) -> tuple[str, ...]:
    """The host keys of the last complete block in a console's output, as `type base64`; empty while there is none."""
    blocks = _BLOCK.findall(text.replace("\r", ""))
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(blocks[-1])) if blocks else ()


def parse_pairs(pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The host keys among pairs of key type and base64, as an agent on the host publishes them; other pairs are ignored."""
    return tuple(sorted(key for key in (f"{kind} {value.strip()}" for kind, value in pairs) if _KEY.fullmatch(key)))


def parse_lines(text: str) -> tuple[str, ...]:
    """The host keys among lines such as those of a `.pub` file, as `type base64`."""
    return tuple(f"{kind} {key}" for kind, key in _KEY.findall(text))


def fresh_private_key() -> str:
    """A new Ed25519 host key in OpenSSH's format, without a passphrase."""
    with tempfile.TemporaryDirectory(prefix="gpuprov-key-") as folder:  # mode 0700
        path = Path(folder, "key")
        make_pair(path)
        return text_of(path)


def make_pair(path: Path) -> None:
    """Make an Ed25519 key without a passphrase, and its `.pub` beside it: both or neither.

    Raises:
        UsageError: ssh-keygen did not, as where the disk is full.
    """
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuprov", "-f", str(path)]
    try:
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        code, why = 1, str(error.strerror)
    else:
        code, why = done.returncode, done.stderr.decode(errors="replace").strip()
    public = path.with_suffix(".pub")
    if code or not (path.exists() and public.exists()):
        for half in (path, public):
            half.unlink(missing_ok=True)
        msg = f"ssh-keygen made no key in {path.parent}: {why or f'exit code {code}'}"
        raise UsageError(msg, hint=f"see whether there is room (`df -h {path.parent}`), and whether `ssh -V` runs; then run this again")


def public_of(private: str) -> str:
    """The public part of a private key in OpenSSH's format, as `type base64`; a text that is not a key, unchanged.

    The file has it in the clear after the names of cipher, KDF and its options, and the number of keys (openssh-portable, PROTOCOL.key).
    """
    if not _PRIVATE.match(private):
        return private
    blob = base64.b64decode("".join(private.split("\n")[1:-2]))
    at = len(b"openssh-key-v1\0")
    for _ in range(3):
        at += 4 + int(struct.unpack_from(">I", blob, at)[0])
    (length,) = struct.unpack_from(">I", blob, at + 4)
    public = blob[at + 8 : at + 8 + length]
    (kind,) = struct.unpack_from(">I", public)
    return f"{public[4 : 4 + kind].decode()} {base64.b64encode(public).decode()}"


def remember(known_hosts: Path, alias: str, keys: Iterable[str]) -> None:
    """Accept exactly these keys for the alias."""
    with lock_of(f"{known_hosts}.lock"):
        old = text_of(known_hosts).splitlines()
        lines = [*(line for line in old if line.split(" ", 1)[0] != alias), *(f"{alias} {key}" for key in keys)]
        write_whole(known_hosts, "".join(f"{line}\n" for line in lines))


def forget(known_hosts: Path, alias: str) -> None:
    """Accept no key for the alias any more."""
    remember(known_hosts, alias, ())
