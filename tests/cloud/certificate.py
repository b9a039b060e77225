"""The certificate of a run, which says what was shown, what it cost at most and where the account differs; and the list of differences.

There is none where a step failed or something is left.
"""

import datetime as dt
import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from provision import __version__
from tests.cloud.deviations import Deviation
from tests.cloud.story import ROOT, STEPS, State


def account_of(calls: Iterable[Mapping[str, Any]]) -> str:
    """A digest of who the account is, from what the transcript calls it; empty where no answer says it."""
    for call in calls:
        text = json.dumps([call["request"], call["answer"], call["operation"]])
        for word in ("account-", "project-"):
            at = text.find(word)
            if at >= 0:
                return text[at : at + len(word) + 8]
    return ""


def commit() -> str:
    """The commit of this checkout, and whether it was changed since."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return f"{head or 'not known'}{' and changes' if changed else ''}"


def certificate(state: State, calls: Sequence[Mapping[str, Any]], transcript: Path, found: Sequence[Deviation]) -> dict[str, Any]:
    """The certificate as data."""
    return {
        "schema": "gpuprov-cloud-test/1",
        "gpuprov": __version__,
        "commit": commit(),
        "cloud": state.cloud,
        "account": account_of(calls),
        "embedded": state.rehearse,
        "profile_sha256": state.profile_sha256,
        "launch": state.name,
        "began": state.began,
        "ended": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "at_most_usd": state.usd,
        "calls": len(calls),
        "errors": sum(bool(call["code"]) for call in calls),
        "transcript_sha256": hashlib.sha256(transcript.read_bytes()).hexdigest(),
        "steps": {step: {"seconds": state.steps[step].seconds, **state.steps[step].found} for step in STEPS},
        "deviations": len(found),
    }


def as_text(made: Mapping[str, Any]) -> str:
    """The certificate for people."""
    who = (
        "an embedded cloud, which stands for an account"
        if made["embedded"]
        else f"an account ({made['account'] or 'its name was not seen'})"
    )
    rows = [
        f"gpuprov {made['gpuprov']} at commit {made['commit']}",
        f"ran on {who} of {made['cloud']}, from {made['began']} to {made['ended']}",
        f"at most {made['at_most_usd']:.2f} USD by list price; {made['calls']} calls, {made['errors']} of them answered with an error",
    ]
    rows += [f"  {step:<13}{done['seconds']:>7.1f} s  {_said(done)}".rstrip() for step, done in made["steps"].items()]
    rows.append(f"{made['deviations']} differences from the embedded cloud: see deviations.txt")
    rows.append("Nothing is left: the list, the sweep and the cloud itself, region by region, have nothing of this launch.")
    return "\n".join(rows) + "\n"


def _said(done: Mapping[str, Any]) -> str:
    outcomes = done.get("outcomes")
    return ", ".join(f"{number} {name}" for name, number in sorted(outcomes.items())) if outcomes else ""
