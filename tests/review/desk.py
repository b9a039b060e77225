"""One bundle, the facts of a host, and the evidence and certificate made of both."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from provision.canonical import digest
from provision.review import bundle
from provision.verify import evidence as proof
from tests.review.samples import POLICY, People, small
from tests.verify.good import GOOD

Call = Callable[..., tuple[int, str, str]]


def facts(folder: Path, name: str, **changes: Any) -> Path:
    raw = {key: {"value": value} for key, value in GOOD.items()}
    raw |= {key: {"value": {**GOOD[key], **value}} for key, value in changes.items()}
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}))
    return path


@dataclass
class Desk:
    """One bundle, and what is done with it."""

    call: Call
    folder: Path
    bundle: Path
    people: People

    def verify(self, name: str, *words: str, **changes: Any) -> tuple[int, str, str]:
        given = facts(self.folder, f"facts-{name}", **changes)
        evidence = ("--evidence", str(self.folder / f"{name}.json"))
        return self.call("verify", "--facts", str(given), "--bundle", str(self.bundle), *evidence, *words)

    def accept(self, name: str, *words: str) -> tuple[int, str, str]:
        page = self.folder / "certificate.html"
        return self.call("accept", str(self.folder / f"{name}.json"), "--bundle", str(self.bundle), "-o", str(page), *words)

    def read(self, name: str) -> Any:
        return json.loads((self.folder / f"{name}.json").read_text())

    def forge(self, name: str, change: Callable[[Any], None]) -> None:
        """Change evidence and make every digest agree, as a careful forger does."""
        data = self.read(name)
        change(data)
        for host in data["hosts"]:
            host["sha256"] = {part: digest(host[part]) for part in ("report", "facts", "profile", "lock")}
            host["findings_sha256"] = proof.findings_digest(host["report"])
        data["sha256"] = proof._digest_of_all(data)
        (self.folder / f"{name}.json").write_text(json.dumps(data))

    @property
    def page(self) -> str:
        return (self.folder / "certificate.html").read_text()


ONLY = ("--only", "gcc", "--only", "tmux", "--only", "python3")


OLD_PYTHON = {"python3": {"version": "3.6.9"}}


@pytest.fixture
def desk(call: Call, tmp_path: Path) -> Desk:
    path = tmp_path / "t4.bundle"
    bundle.write(path, small(POLICY))
    return Desk(call, tmp_path, path, People.make(tmp_path / "isa"))
