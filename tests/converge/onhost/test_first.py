"""A member at its boot: size, digest and signature come first, and a bundle that is refused leaves nothing behind and proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from provision.converge.engine import Layer
from provision.converge.onhost import first as onhost
from provision.converge.onhost.bundle import NAMESPACE, RefusedBundle
from provision.review.sign import signature_of
from tests.converge.onhost.test_bundle import NOW, key

__all__ = ["key"]

there: Any = onhost
# Stands in for what observes and judges: tests/clouds/aws/test_member.py has the real one on a real host.
PROVES = b"""
import sys
def main(place, root, run):
    open(run + "/proved", "w").write(place)
    sys.exit(int(open(place + "/config/code").read()))
"""
ENGINE = Layer.of(
    {f"provision/{folder}__init__.py": b"" for folder in ("", "converge/", "converge/onhost/")}
    | {"provision/converge/onhost/prove.py": PROVES}
)


class Boot:
    """A machine with its archive and its user data."""

    def __init__(self, folder: Path, key: Path) -> None:
        self.folder, self.key = folder, key
        self.archive, self.config = folder / "program", folder / "member.json"
        self.root, self.run = folder / "root", folder / "run"
        self.trust: dict[str, Any] = {
            "signers": f'me namespaces="{NAMESPACE}" {key.with_suffix(".pub").read_text()}',
            "principal": "me",
            "minimum": 7,
        }

    def write(self, code: int = 0, change: Callable[[dict[str, bytes]], None] = lambda _: None, **stated: int) -> None:
        layers = {"engine": ENGINE, "config": Layer.of({"code": b"%d" % code})}
        times = {"serial": 7, "not_before": NOW, "expires": NOW + 100} | stated
        plain = {name: {"sha256": layer.sha256, "bytes": len(layer.content)} for name, layer in layers.items()}
        statement = json.dumps({"schema": "gpuprov-bundle/1", "python": "3.7", "layers": plain, **times}).encode()
        parts = {"statement.json": statement, "statement.json.sig": signature_of(statement, key=self.key, namespace=NAMESPACE, quiet=True)}
        parts |= {name: layer.content for name, layer in layers.items()}
        change(parts)
        with zipfile.ZipFile(self.archive, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)

    def prove(self) -> int:
        self.config.write_text(json.dumps({"trust": self.trust}))
        return int(there.prove(str(self.archive), str(self.config), str(self.root), str(self.run)))


@pytest.fixture
def boot(tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch) -> Boot:
    monkeypatch.setattr(there.time, "time", lambda: NOW + 1)
    return Boot(tmp_path, key)


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_verdict_is_that_of_the_bundle(boot: Boot, code: int) -> None:
    boot.write(code)
    assert boot.prove() == code
    place = Path((boot.run / "proved").read_text())
    assert place.parent == boot.root / "bundles"


def longer(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.update({name: parts[name] + b"x"})


def other(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.update({name: bytes([parts[name][0] ^ 1]) + parts[name][1:]})


@pytest.mark.parametrize(
    ("change", "stated", "trust", "code"),
    [
        (longer("engine"), {}, {}, "size"),
        (other("config"), {}, {}, "digest"),
        (other("statement.json"), {}, {}, "signature"),
        (lambda parts: parts.update({"statement.json": b" " * (2 << 20)}), {}, {}, "size"),
        (lambda _: None, {"expires": NOW}, {}, "expired"),
        (lambda _: None, {}, {"minimum": 8}, "serial"),
        (lambda _: None, {}, {"principal": "somebody"}, "signature"),
        (lambda _: None, {}, None, "signature"),
    ],
)
def test_what_is_refused_runs_nothing(
    boot: Boot, change: Callable[[dict[str, bytes]], None], stated: dict[str, int], trust: dict[str, Any] | None, code: str
) -> None:
    boot.write(0, change, **stated)
    boot.trust = {} if trust is None else boot.trust | trust
    with pytest.raises(RefusedBundle) as caught:
        boot.prove()
    assert caught.value.code == code
    assert not boot.run.exists()
    assert not (boot.root / "current").exists()


def test_a_clock_that_is_set_a_moment_later_is_waited_for_and_no_longer(boot: Boot, monkeypatch: pytest.MonkeyPatch) -> None:
    boot.write()
    clock = iter([0, 0, NOW + 1, NOW + 1, NOW + 1])
    monkeypatch.setattr(there.time, "time", lambda: next(clock))
    monkeypatch.setattr(there.time, "sleep", lambda _: None)
    assert boot.prove() == 0
    monkeypatch.setattr(there.time, "time", lambda: 0)
    monkeypatch.setattr(there, "CLOCK_S", -1)
    with pytest.raises(RefusedBundle) as caught:
        boot.prove()
    assert caught.value.code == "clock"


def test_whatever_is_wrong_with_the_file_the_exit_code_is_not_0(tmp_path: Path) -> None:
    """As a program, where no user data names a signer: it ends with a reason."""
    path = tmp_path / "program"
    with zipfile.ZipFile(path, "w") as archive:
        for name in (
            "__init__.py",
            "converge/__init__.py",
            "converge/onhost/__init__.py",
            "converge/onhost/bundle.py",
            "converge/onhost/first.py",
        ):
            archive.write(Path("provision") / name, f"provision/{name}")
        archive.writestr(
            "__main__.py", f"from provision.converge.onhost import first\nfirst.CONFIG = {str(tmp_path / 'none')!r}\nfirst.main()\n"
        )
    done = subprocess.run([sys.executable, str(path)], check=False, capture_output=True, text=True, env=dict(os.environ))
    assert (done.returncode, "cannot be used" in done.stderr) == (3, True)
