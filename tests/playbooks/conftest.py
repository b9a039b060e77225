"""Our Ansible modules in this process: files below a temporary folder are real, and every command is answered by a pretended host."""

from __future__ import annotations

import glob
import grp
import importlib
import json
import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from provision.paths import playbooks_dir

basic: Any = importlib.import_module("ansible.module_utils.basic")
PLUGINS = "ansible_collections.gpuprov.host.plugins"
ME = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}


@dataclass
class Pretended:
    """A host that remembers each command that asks nothing. Units behave as systemd's; other commands answer by their first words."""

    units: dict[str, dict[str, bool]] = field(default_factory=dict)
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def run(self, argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        if not line.startswith(("systemctl show", "dpkg-query", "rpm --query")):
            self.ran.append(line)
        answers = [answer for words, answer in self.answers.items() if line.startswith(words)]
        if answers:
            return answers[0]
        return self.systemctl(argv) if argv[0] == "systemctl" else (0, "")

    def systemctl(self, argv: list[str]) -> tuple[int, str]:
        unit = self.units.get(argv[-1])
        if argv[1] == "show":
            state = unit or {"exists": False, "enabled": False, "active": False, "stale": False}
            words = (
                *(
                    f"LoadState={'loaded' if state['exists'] else 'not-found'}",
                    f"UnitFileState={'enabled' if state['enabled'] else 'disabled'}",
                ),
                *(f"ActiveState={'active' if state['active'] else 'inactive'}", f"NeedDaemonReload={'yes' if state['stale'] else 'no'}"),
            )
            return 0, "\n".join(words)
        if argv[1] == "daemon-reload":
            for each in self.units.values():
                each["stale"] = False
        elif unit:
            changes = {"enable": ("enabled", True), "disable": ("enabled", False), "stop": ("active", False)}
            name, value = changes.get(argv[1], ("active", True))
            unit[name] = value
        return 0, ""

    def unit(self, name: str, *, exists: bool = True, enabled: bool = False, active: bool = False, stale: bool = False) -> None:
        self.units[name] = {"exists": exists, "enabled": enabled, "active": active, "stale": stale}


@dataclass
class Modules:
    """Our modules and their library, on the pretended host."""

    folder: Path
    host: Pretended
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def load(self, name: str) -> Any:
        return importlib.import_module(f"{PLUGINS}.{name}")

    def call(self, name: str, *, check: bool = False, **parameters: Any) -> dict[str, Any]:
        """What a module answers to parameters, as Ansible gives them."""
        module = self.load(f"modules.{name}")
        for user in (module, self.load("module_utils.ledger")):
            self.monkeypatch.setattr(user, "run", self.host.run, raising=False)
        given = {"ANSIBLE_MODULE_ARGS": {**parameters, "_ansible_check_mode": check}}
        self.monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(given).encode())
        self.monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        self.capsys.readouterr()
        with pytest.raises(SystemExit):
            module.main()
        answer: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return answer

    def record(self, role: str) -> dict[str, Any]:
        """What the ledger holds of a role."""
        record: dict[str, Any] = json.loads((self.folder / "changes" / f"{role}.json").read_text())
        return record


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Modules:
    monkeypatch.syspath_prepend(str(playbooks_dir() / "collections"))
    made = Modules(tmp_path, Pretended(), capsys, monkeypatch)
    ledger = made.load("module_utils.ledger")
    monkeypatch.setattr(ledger, "run", made.host.run)
    begin = ledger.Ledger.__init__

    def begin_here(self: Any, role: str, folder: str = str(tmp_path / "changes")) -> None:
        begin(self, role, folder)

    monkeypatch.setattr(ledger.Ledger, "__init__", begin_here)
    return made


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The only programs of the host."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, text: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)

    return add


@dataclass
class Host:
    """A root of its own for what a module opens and looks for."""

    root: Path
    modules: Modules

    def __post_init__(self) -> None:
        find = glob.glob
        self.modules.monkeypatch.setattr(glob, "glob", lambda pattern: sorted(find(self.below(pattern))))

    def below(self, path: str) -> str:
        return path if path.startswith(str(self.root)) else f"{self.root}{path}"

    def open(self, path: str, *words: Any, **how: Any) -> Any:
        return Path(self.below(path)).open(*words, **how)

    def write(self, path: str, content: bytes) -> Path:
        file = Path(self.below(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return file

    def load(self, name: str) -> Any:
        module = self.modules.load(f"modules.{name}")
        self.modules.monkeypatch.setattr(module, "open", self.open, raising=False)
        return module


@pytest.fixture
def host(modules: Modules, tmp_path: Path) -> Host:
    return Host(tmp_path / "host", modules)


Settle = Callable[..., dict[str, Any]]


@pytest.fixture
def settle(modules: Modules) -> Settle:
    """`settle` for the role r, whose files belong to this user."""

    def call(*, check: bool = False, files: Any = (), **parameters: Any) -> dict[str, Any]:
        return modules.call("settle", check=check, role="r", files=[{**ME, **file} for file in files], **parameters)

    return call
