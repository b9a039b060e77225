"""Lets a host copy from a bucket by itself, with the identity that its cloud gave it: no credentials of the caller's leave this machine."""

import asyncio
import re
import shlex
from typing import Final

from provision import clouds
from provision.clouds.own import BucketCopy
from provision.errors import GpuprovError, UsageError
from provision.host.ssh import Target, execute

_LONGEST_S: Final = 24 * 3600.0
_ABSENT: Final = 127
_TOLD: Final = 2000  # characters of what the program said
# Bucket, and a key of printable characters; every word is quoted for the shell beside that.
_ADDRESS: Final = re.compile(r"([a-z][a-z0-9]*)://[a-z0-9][a-z0-9._-]{1,220}(/[^\x00-\x1f\x7f]{0,1024})?")


class BucketRefusedError(GpuprovError, code="bucket-refused"):
    """A host could not copy from a bucket with its own identity."""


def is_address(text: str) -> bool:
    """Whether a word of the command line names something in a bucket, of whatever cloud."""
    return "://" in text


def copy(target: Target, address: str, destination: str, *, delete: bool, dry_run: bool) -> str:
    """Copy an object, or with a slash at the end of the address everything below it, to a folder of the host.

    Args:
        target: the host.
        address: such as scheme://bucket/prefix/.
        destination: a path there.
        delete: whether what is at the destination and not in the bucket is removed.
        dry_run: whether it is only shown what would be copied.

    Returns:
        What the host's program printed.

    Raises:
        UsageError: the address is none, or these go together with a whole prefix only.
        BucketRefusedError: the host has no such program, or it failed.
    """
    how = _how(address)
    whole = address.endswith("/")
    if (delete or dry_run) and not whole:
        msg = "--delete and --dry-run need everything below an address"
        raise UsageError(msg, hint="end the address with a slash, or leave them out")
    if is_address(destination) or not destination:
        msg = f"{destination!a} is not a path on {target.name}"
        raise UsageError(msg, hint="the last PATH is on the host; nothing is copied from one bucket into another")
    options = [how.delete] * delete + [how.dry_run] * dry_run
    words = [*how.alone, how.program, *(how.all if whole else how.one), *options, address, _no_option(destination)]
    look = f"command -v {shlex.quote(how.program)} >/dev/null || exit {_ABSENT}"
    done = asyncio.run(execute(target, f"{look}; {shlex.join(words)}", timeout_s=_LONGEST_S))
    told = done.stderr.decode(errors="replace")[-_TOLD:]
    if done.exit_code == _ABSENT:
        msg = f"{how.program} is not installed on {target.name}"
        raise BucketRefusedError(msg, hint="take an image that has it, or copy from here: `gpuprov push` with a path", detail=told)
    if done.exit_code:
        msg = f"{target.name} could not copy {address}: its {how.program} ended with {done.exit_code}"
        hint = "see that the place has an `identity` that may list and read there; `-v` shows what it said, and the same command goes on"
        raise BucketRefusedError(msg, hint=hint, detail=told)
    return done.stdout.decode(errors="replace")


def _how(address: str) -> BucketCopy:
    known = {provider.bucket.scheme: provider.bucket for provider in clouds.providers() if provider.bucket}
    parsed = _ADDRESS.fullmatch(address)
    if parsed is None or parsed[1] not in known:
        msg = f"{address!a} is not an address of a bucket"
        raise UsageError(msg, hint=f"write {' or '.join(f'{scheme}://BUCKET/PREFIX/' for scheme in known)}")
    return known[parsed[1]]


def _no_option(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path
