"""What this machine says holds its shape, and what loads the GPU runs last."""

import contextlib
import json
import queue
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from provision.verify.facts import Fact, Facts
from provision.verify.facts.gpu import ModulesFacts
from provision.verify.facts.health import XidsFacts
from provision.verify.facts.links import FabricFacts
from provision.verify.facts.stack import EncodersFacts
from provision.verify.facts.surroundings import InitramfsFacts, UpgradesFacts, VariablesFacts
from provision.verify.facts.system import ClockFacts
from tests.verify.probe.host import tool
from tests.waiting import until


@pytest.mark.parametrize(
    "kind",
    [XidsFacts, VariablesFacts, UpgradesFacts, ClockFacts, InitramfsFacts, ModulesFacts, EncodersFacts, FabricFacts],
    ids=lambda kind: kind.name,
)
def test_what_this_machine_says_holds_its_shape_or_is_unknown_with_a_reason(probe: Any, kind: type[Fact]) -> None:
    everything = {name: fact for module in vars(probe).values() for name, fact in getattr(module, "FACTS", {}).items()}
    raw = probe.run.gather({kind.name: everything[kind.name]}, 30)
    if "unknown" in raw[kind.name]:
        # None is a failure of the probe's own: no GPU here, a log that this user may not read, or a machine too busy to answer.
        assert re.search("no NVIDIA GPU|cannot be read|did not end within", raw[kind.name]["unknown"])
    else:
        assert Facts("", 0.0, json.loads(json.dumps(raw))).read(kind)


def test_what_loads_the_gpu_runs_when_all_else_has_ended(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    told = threading.Event()

    def fact(name: str) -> Any:
        def run() -> str:
            if name == "pytorch":
                told.wait()  # for the one beside it
            ran.append(name)
            if name == "os":
                told.set()
            return name

        return run

    facts = {name: fact(name) for name in ("perf", "pytorch", "os")}
    monkeypatch.setitem(probe.run.REQUEST, "tier", "perf")
    answers = probe.run.gather_tier(facts, time.monotonic() + 10)
    assert ran == ["os", "pytorch", "perf"]
    assert set(answers) == set(facts)


@pytest.mark.parametrize(("tier", "gathered"), [("quick", {"os", "extras"}), ("standard", {"os", "extras", "jax"})])
def test_facts_of_every_tier_begin_before_the_request_is_here(probe: Any, tier: str, gathered: set[str]) -> None:
    """`extras` asks for what the request says, and waits; `jax` is not even begun before the tier is known."""
    ran: queue.Queue[str] = queue.Queue()
    facts = {
        "os": lambda: ran.put("os"),
        "extras": lambda: ran.put(f"extras in {probe.run.asked('prefix')}"),
        "jax": lambda: ran.put("jax"),
    }

    def ask() -> None:
        assert ran.get(timeout=10) == "os"
        assert ran.empty()
        probe.run.REQUEST.update(tier=tier, prefix="/opt/image")
        probe.run.ASKED.set()

    probe.run.ASKED.clear()
    answers = probe.run.gather_tier(facts, time.monotonic() + 10, None, ask)
    assert {name for name, answer in answers.items() if "value" in answer} == gathered
    assert set(ran.queue) == {"extras in /opt/image"} | (gathered & {"jax"})


def test_no_fact_looks_at_the_request_before_it_is_here(probe: Any) -> None:
    """They ask for it with `asked`, which waits; `perf` runs when all else has ended."""
    sources = {name: Path(str(module.__file__)).read_text() for name, module in vars(probe).items()}
    assert {name for name, source in sources.items() if "REQUEST" in source} == {"run", "perf"}


def test_the_time_that_facts_have_counts_from_the_request_and_ends_with_that_of_the_whole(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ends = 0.0, threading.Event()

    def more() -> dict[str, Any]:
        nonlocal now
        now += 1000.0
        return {}

    def gathered(deadline_s: float) -> Any:
        ends.clear()
        return probe.run.gather({"os": ends.wait}, deadline_s, lambda _: ends.set(), more)["os"]

    monkeypatch.setattr(probe.run, "time", SimpleNamespace(monotonic=lambda: now))
    assert gathered(2000) == {"value": True}
    assert gathered(500) == {"unknown": "not observed within 0 s"}
    ends.set()


def test_a_command_that_is_just_starting_ends_with_the_probe(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs already, but the thread that started it has not gone on since."""
    started: queue.Queue[subprocess.Popen[bytes]] = queue.Queue()
    known, left = threading.Event(), threading.Event()

    def slow(*arguments: Any, **how: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(*arguments, **how)
        started.put(process)
        known.wait()
        return process

    monkeypatch.setattr(probe.run, "subprocess", SimpleNamespace(**{**vars(subprocess), "Popen": slow}))
    monkeypatch.setattr(probe.run.os, "_exit", lambda _: left.set())
    fact = threading.Thread(target=lambda: probe.run.command(["sleep", "600"]))
    fact.start()
    process = started.get(timeout=60)
    leaving = threading.Thread(target=probe.run.leave)
    leaving.start()
    left.wait(probe.run.START_S / 5)  # a probe that does not look at what is starting has left by now
    known.set()
    leaving.join()
    fact.join(60)
    ended = not fact.is_alive()
    process.kill()
    fact.join()
    assert ended


@pytest.mark.parametrize(("at_the_end", "code"), [("rm lock; exit 0", 0), ("", -signal.SIGKILL)])
def test_a_command_that_is_ended_may_clean_up_and_ends_all_the_same(probe: Any, tmp_path: Path, at_the_end: str, code: int) -> None:
    """A login shell may run a tool that holds a lock of its user: killed at once, it would leave the lock behind."""
    answers: list[Any] = []
    shell = ["sh", "-c", f"trap '{at_the_end}' TERM; touch lock ready; sleep 600 & wait; sleep 600"]
    fact = threading.Thread(target=lambda: answers.append(probe.run.command(shell, cwd=tmp_path)))
    fact.start()
    until(lambda: probe.run.RUNNING and (tmp_path / "ready").exists())
    probe.run.end_all()
    fact.join()
    assert [answer[0] for answer in answers] == [code]
    assert (tmp_path / "lock").exists() == bool(code)


def test_a_fact_that_goes_on_after_its_time_leaves_no_command(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first command is ended with its time; it takes that for a failure, and tries another way."""

    def fact() -> None:
        with contextlib.suppress(probe.run.Unknown):
            probe.run.command(["sleep", "600"])
        probe.run.command(["sh", "-c", "touch second; exec sleep 600"], cwd=tmp_path)

    def remove() -> None:  # on a busy machine there is so much time between the end of the facts and that of the probe
        until_s = time.monotonic() + 2
        while not (tmp_path / "second").exists() and time.monotonic() < until_s:
            time.sleep(0.01)

    exits: list[int] = []
    monkeypatch.setattr(probe.run, "remove_folders", remove)
    monkeypatch.setattr(probe.run.os, "_exit", exits.append)
    before = signal.getsignal(signal.SIGTERM)
    try:
        probe.run.main({"nonce": "n", "deadline_s": 0.2}, {"os": fact}, dict)
    finally:
        signal.signal(signal.SIGTERM, before)
    left = [process for process in list(probe.run.RUNNING) if process.poll() is None]
    for process in left:
        process.kill()
    assert (exits, left) == ([0], [])


def test_the_folder_of_a_fact_ends_with_the_probe(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(probe.run.os, "_exit", lambda _: None)
    with probe.run.own_folder() as folder:
        Path(folder, "kept").touch()
        probe.run.leave()
        assert not list(tmp_path.iterdir())


def test_no_command_starts_when_the_probe_is_leaving(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.run.os, "_exit", lambda _: None)
    probe.run.leave()
    with pytest.raises(probe.run.Unknown):
        probe.run.command(["true"])


def test_facts_whose_programs_take_longest_begin_first(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {name for module in vars(probe).values() for name in getattr(module, "FACTS", {})}
    first = [*probe.run.SLOW_S, *probe.run.BEGIN]
    assert set(first) <= everything  # each of them is a fact
    began = list[str]()

    class Thread(threading.Thread):
        def start(self) -> None:
            began.append(self._args[0])  # type: ignore[attr-defined]
            super().start()

    monkeypatch.setattr(probe.run.threading, "Thread", Thread)
    names = ["time", *probe.run.BEGIN, "kernel", *probe.run.SLOW_S]
    probe.run.gather(dict.fromkeys(names, dict), 30)
    assert began == [*probe.run.SLOW_S, *probe.run.BEGIN, "time", "kernel"]


SHOW = """\
echo x >> {asked}
for word in "$@"; do case $word in show|--*) continue ;; nvidia-persistenced.service) state=active ;; *) state=inactive ;; esac
echo "LoadState=loaded"; echo "ActiveState=$state"; echo; done"""


def test_systemd_is_asked_once_for_all_units(probe: Any, bin_folder: Path, tmp_path: Path) -> None:
    tool(bin_folder, "systemctl", SHOW.format(asked=tmp_path / "asked"))
    facts = {name: probe.settings.FACTS[name] for name in ("persistence_unit", "clocks_unit")} | {"mig_unit": probe.mig.FACTS["mig_unit"]}
    answers = probe.run.gather(facts, 30)
    assert {name: answer["value"]["active"] for name, answer in answers.items()} == {
        "persistence_unit": True,
        "clocks_unit": False,
        "mig_unit": False,
    }
    assert probe.cluster.ray()["unit"]["exists"]
    assert (tmp_path / "asked").read_text() == "x\n"


def test_a_unit_that_no_module_has_named_is_asked_for_by_itself(probe: Any, bin_folder: Path, tmp_path: Path) -> None:
    tool(bin_folder, "systemctl", SHOW.format(asked=tmp_path / "asked"))
    assert not probe.run.unit("gpuprov-mig.service")["active"]
    assert probe.run.unit("other.service")["exists"]
    assert (tmp_path / "asked").read_text() == "x\nx\n"


def test_why_systemd_does_not_answer_is_said_of_each_unit(probe: Any, bin_folder: Path, tmp_path: Path) -> None:
    tool(bin_folder, "systemctl", f"echo x >> {tmp_path / 'asked'}; exit 1")
    for name in ("gpuprov-mig.service", "gpuprov-ray.service"):
        with pytest.raises(probe.run.Unknown, match="no systemd answers"):
            probe.run.unit(name)
    assert (tmp_path / "asked").read_text() == "x\n"


JOURNAL: list[dict[str, Any]] = [
    {"MESSAGE": "Starting nvidia-fabricmanager.service - NVIDIA fabric manager service...", "PRIORITY": "6"},
    {"MESSAGE": "modprobe: FATAL: Module nvidia not found in directory /lib/modules/6.8.0-1030-aws", "PRIORITY": "6"},
    {"MESSAGE": "Failed to find module 'snd'", "PRIORITY": "3", "_SYSTEMD_UNIT": "systemd-modules-load.service"},
    {"MESSAGE": "Failed to insert module 'nvidia_modeset': No such device", "PRIORITY": "3", "UNIT": "systemd-modules-load.service"},
    {"MESSAGE": [110, 111], "PRIORITY": "6"},
    {"MESSAGE": "Failed to start nvidia-fabricmanager.service - NVIDIA fabric manager service.", "PRIORITY": "3"},
]


def systemctl(folder: Path, state: str, system: str = "running", **properties: str) -> None:
    """A systemd with every unit in one state."""
    lines = {"LoadState": "loaded", "UnitFileState": "enabled", "ActiveState": state, "SubState": state, "Type": "forking", **properties}
    shown = "\n".join(f"{name}={value}" for name, value in lines.items())
    tool(
        folder,
        "systemctl",
        f"[ $1 = is-system-running ] && {{ echo {system}; exit 1; }}\nwhile [ $# -gt 2 ]; do echo '{shown}\n'; shift; done",
    )


def journal(folder: Path, text: str, code: int = 0) -> None:
    (folder.parent / "journal").write_text(text)
    tool(folder, "journalctl", f'while read -r line; do echo "$line"; done < {folder.parent}/journal; echo no rights >&2; exit {code}')


def test_what_systemd_and_a_unit_complained_of_is_kept_with_its_severity(probe: Any, bin_folder: Path) -> None:
    systemctl(bin_folder, "failed")
    journal(bin_folder, "".join(json.dumps(row).replace("\\", "\\\\") + "\n" for row in JOURNAL))
    found = probe.run.unit("nvidia-fabricmanager.service")
    assert found["lines"] == [JOURNAL[1]["MESSAGE"], f"error: {JOURNAL[3]['MESSAGE']}", f"error: {JOURNAL[5]['MESSAGE']}"]
    assert not found["starting"]


@pytest.mark.parametrize(("text", "code", "reason"), [("", 1, "no rights"), ("not json\n", 0, "Expecting value")])
def test_a_journal_that_this_user_cannot_read_is_no_unit_without_complaints(
    probe: Any, bin_folder: Path, text: str, code: int, reason: str
) -> None:
    systemctl(bin_folder, "failed")
    journal(bin_folder, text, code)
    found = probe.run.unit("nvidia-fabricmanager.service")
    assert (reason in found["unread"], "lines" in found) == (True, False)
    (bin_folder / "journalctl").unlink()
    assert "journalctl" in probe.run.complaints("x.service")["unread"]


@pytest.mark.parametrize(
    ("case", "starting"),
    [
        (({"state": "activating", "SubState": "start"}, 9000.0), True),
        (({"state": "activating", "SubState": "auto-restart"}, 60.0), False),  # it failed a moment ago
        (({"state": "inactive", "system": "starting"}, 60.0), True),
        (({"state": "inactive", "system": "starting"}, 600.0), False),  # what waits for so long waits for nothing that comes
        (({"state": "inactive"}, 60.0), False),
        (({"state": "failed", "system": "starting"}, 60.0), False),
    ],
)
def test_a_unit_that_still_starts_says_so(
    probe: Any, bin_folder: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[dict[str, str], float], starting: Any
) -> None:
    units, up_s = case
    systemctl(bin_folder, **units)
    monkeypatch.setattr(probe.run, "read", lambda _: f"{up_s} 1.0")
    assert probe.run.unit("nvidia-persistenced.service")["starting"] is starting


def test_a_unit_that_has_done_its_work_or_runs_is_not_looked_into(probe: Any, bin_folder: Path) -> None:
    systemctl(bin_folder, "inactive", Type="oneshot")
    assert not {"lines", "unread"} & probe.run.unit("nvidia-cdi-refresh.service").keys()
    probe.run.SHOWN.clear()
    systemctl(bin_folder, "active")
    assert set(probe.run.unit("nvidia-persistenced.service")) == {"exists", "enabled", "active", "command"}
