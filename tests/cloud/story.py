"""The story that is played on an account: up, counters, reboot, verify, review, questions, down, sweep; and the proof that nothing is left.

Each step is a process of its own, whose calls are recorded. What was done is written after each step, so that a run that was killed goes on
where it was, or is cleaned.
"""

import contextlib
import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from provision.paths import read_bounded, write_whole
from provision.profile import load
from tests import forked
from tests.cloud import questions, things

ROOT: Final = Path(__file__).parents[2]
TAG: Final = "cloud-test"
STEPS: Final = ("up", "counters", "reboot", "verify", "review", "questions", "down", "sweep", "nothing-left")
_STATE: Final = 1 << 20
_REBOOT_S: Final = 900
_EMBEDDED_S: Final = 7200
_POLL_S: Final = 2.0
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"

Say = Callable[[str], None]


class StoryError(Exception):
    """The story cannot begin or go on; `code` is the exit code, `hint` the way out."""

    def __init__(self, message: str, hint: str, code: int = 4) -> None:
        super().__init__(message)
        self.hint, self.code = hint, code


@dataclass
class Done:
    """A step that ended: its exit code, how long it took, and what it found."""

    code: int
    seconds: float
    found: dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """What is written after each step.

    Attributes:
        cloud, name, profile_sha256: of the launch.
        rehearse: whether the account is an embedded cloud.
        usd: what the run may cost at most, by list prices.
        store: of a fleet, for the questions that need one; empty for none.
        steps: those that ended.
        finished: whether nothing of it is left to do.
    """

    cloud: str
    name: str
    profile_sha256: str
    rehearse: bool
    usd: float
    began: str
    steps: dict[str, Done] = field(default_factory=dict)
    finished: bool = False
    store: str = ""


class Story:
    """One run in one folder.

    Args:
        folder: of the run; everything that it writes is below.
        state: where it is.
        say: told of each step.
    """

    def __init__(self, folder: Path, state: State, say: Say) -> None:
        self.folder, self.state, self._say = folder, state, say
        self.transcript = folder / "transcript.jsonl"
        self.profile = folder / "profile.yml"

    def save(self) -> None:
        """Write what is done."""
        write_whole(self.folder / "state.json", json.dumps(asdict(self.state), indent=1).encode())

    def environment(self) -> dict[str, str]:
        """The user's own, with a journal and an SSH configuration of this run."""
        more = {"GPUPROV_HOME": str(self.folder / "home"), "GPUPROV_SSH_CONFIG": str(self.folder / "ssh_config")}
        return {**os.environ, **more, "PYTHONPATH": str(ROOT)}

    def gpuprov(self, step: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run one command with its calls recorded; its progress is shown, and what it prints is kept."""
        recorded = ("--transcript", str(self.transcript), "--step", step, "--", *words)
        if self.state.rehearse:
            env = self.environment()
            done = forked.gpuprov(*recorded, env=env, cwd=ROOT, timeout_s=_EMBEDDED_S, module="tests.cloud.recorded", shown=True)
            (self.folder / f"{step}.out").write_text(done.stdout)
            return done
        command = [sys.executable, "-m", "tests.cloud.recorded", *recorded]
        process = subprocess.Popen(
            command, cwd=ROOT, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None, text=True
        )
        try:
            out, _ = process.communicate()
        except KeyboardInterrupt:  # the same Ctrl-C reached the command, which says what still runs
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            raise
        (self.folder / f"{step}.out").write_text(out)
        return subprocess.CompletedProcess(command, process.returncode, out, "")

    def play(self) -> bool:
        """Play every step that is not done yet; whatever fails, the machine is removed. Returns whether every step did what it should."""
        try:
            for step in STEPS[: STEPS.index("down")]:
                if step not in self.state.steps and not self._take(step):
                    break
        except KeyboardInterrupt:
            self._say("interrupted: removing the machine first; Ctrl-C again leaves it, and the next run removes it")
            raise
        finally:
            self.clean()
        return all(step in self.state.steps and self.state.steps[step].code == 0 for step in STEPS)

    def clean(self) -> None:
        """Remove the machine, and look for what is left. What was looked at before is looked at again."""
        for step in STEPS[STEPS.index("down") :]:
            self._take(step)
        self.state.finished = self.state.steps["nothing-left"].code == 0
        self.save()
        if self.state.finished and self.state.rehearse:
            self.gpuprov("rehearse", "rehearse", "stop")

    def _take(self, step: str) -> bool:
        self._say(f"{step} …")
        begun = time.monotonic()
        code, found = getattr(self, f"_{step.replace('-', '_')}")()
        self.state.steps[step] = Done(code, round(time.monotonic() - begun, 1), found)
        self.save()
        self._say(f"{step}: {'done' if code == 0 else f'exit code {code}'} ({self.state.steps[step].seconds:.1f} s)")
        return bool(code == 0)

    @property
    def _without_gpu(self) -> tuple[str, ...]:
        return ("--without-gpu",) if self.state.rehearse else ()

    @property
    def _embedded(self) -> tuple[str, ...]:
        return ("--rehearse",) if self.state.rehearse else ()

    def _up(self) -> tuple[int, dict[str, Any]]:
        where = (*self._embedded, self.state.cloud) if self.state.rehearse else ()
        done = self.gpuprov("up", "up", str(self.profile), "--name", self.state.name, *where, *self._without_gpu, "--json")
        return done.returncode, _picked(done.stdout, "host", "attempts")

    def _counters(self) -> tuple[int, dict[str, Any]]:
        words = ("--only", "counters", "--only", "counters-on-disk")
        done = self.gpuprov("counters", "verify", self.state.name, *words, *self._without_gpu, "--json")
        return done.returncode, {"outcomes": _outcomes(done.stdout)}

    def _reboot(self) -> tuple[int, dict[str, Any]]:
        facts = self.gpuprov("facts", "probe", self.state.name)
        if facts.returncode != 0:
            return facts.returncode, {}
        (self.folder / "facts.json").write_text(facts.stdout)
        before = self.gpuprov("boot-id", "ssh", self.state.name, "--", "cat", _BOOT_ID).stdout.strip()
        self.gpuprov("reboot", "ssh", self.state.name, "--", "sudo", "systemctl", "reboot")
        deadline = time.monotonic() + _REBOOT_S
        while time.monotonic() < deadline:
            again = self.gpuprov("boot-id", "ssh", self.state.name, "--", "cat", _BOOT_ID)
            if again.returncode == 0 and again.stdout.strip() not in {"", before}:
                return 0, {"another_boot": True}
            time.sleep(_POLL_S)
        return 3, {"another_boot": False}

    def _verify(self) -> tuple[int, dict[str, Any]]:
        words = ("--after-reboot", str(self.folder / "facts.json"), "--wait", "5m")
        done = self.gpuprov("verify", "verify", self.state.name, *words, *self._without_gpu, "--json")
        return done.returncode, {"outcomes": _outcomes(done.stdout)}

    def _review(self) -> tuple[int, dict[str, Any]]:
        done = self.gpuprov("review", "review", str(self.profile), "-o", str(self.folder / "review.bundle"), "--json")
        return done.returncode, _picked(done.stdout, "sha256")

    def _questions(self) -> tuple[int, dict[str, Any]]:
        """What no page of the cloud answers; an answer that is not known is none of the story's failures."""
        store = ("--store", self.state.store) if self.state.store else ()
        done = self.gpuprov("questions", questions.WORD, str(self.profile), self.state.name, *store, *self._embedded)
        return done.returncode, {"learnt": _listed(done.stdout)}

    def _down(self) -> tuple[int, dict[str, Any]]:
        if not (self.folder / "home" / "launches").is_dir():
            return 0, {"removed": []}  # the journal is written before anything is asked for
        done = self.gpuprov("down", "down", self.state.name, "--yes", *self._embedded, "--json")
        return done.returncode, {"removed": [each for launch in _data(done.stdout).get("launches", ()) for each in launch["removed"]]}

    def _sweep(self) -> tuple[int, dict[str, Any]]:
        done = self.gpuprov("sweep", "sweep", "--yes", *self._embedded, "--tag", f"{TAG}={self.state.name}", "--json")
        data = _data(done.stdout)
        return done.returncode, {"left": data.get("left", []), "removed": len(data.get("removed", []))}

    def _nothing_left(self) -> tuple[int, dict[str, Any]]:
        """Three doors, and all have to answer: the list, a second `sweep`, and everything that has the launch's name in each region."""
        tag = f"{TAG}={self.state.name}"
        listed = self.gpuprov("list", "ls", *self._embedded, "--tag", tag, "--json")
        swept = self.gpuprov("left", "sweep", "--dry-run", *self._embedded, "--tag", tag, "--json")
        named = self.gpuprov("things", things.WORD, str(self.profile), self.state.name, *self._embedded)
        rows, found, alive = _data(listed.stdout), _data(swept.stdout), _data(named.stdout)
        there = {"ls": rows.get("rows"), "sweep": found.get("left"), "things": alive.get("alive")}
        code = max(listed.returncode, swept.returncode, named.returncode)
        return code or (0 if all(each == [] for each in there.values()) else 1), there


def prepare(source: str, cloud: str, hours: int, folder: Path) -> tuple[str, str]:
    """Write the profile of a run: the places of one cloud, a deadline of hours, and a tag by which it is found.

    Returns the launch's name, and the digest of everything but the tag.

    Raises:
        StoryError: the profile has no place there.
    """
    whole = load.load(load.find(source)).dump()
    places = [place for place in whole["places"] if place["cloud"] == cloud]
    if not places:
        msg = f"{source} has no place on {cloud}"
        raise StoryError(msg, "name another profile with PROFILE=, or add a place to this one", 2)
    name = f"cloudtest-{secrets.token_hex(4)}"
    tags = {key: value for key, value in whole.get("tags", {}).items() if key != TAG}
    whole |= {"places": places, "limits": {**whole["limits"], "deadline_h": hours}, "tags": tags}
    digest = hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()
    (folder / "profile.yml").write_text(yaml.safe_dump({**whole, "tags": {**tags, TAG: name}}, sort_keys=False))
    return name, digest


def price(story_folder: Path) -> float:
    """What a run costs at most, in US dollars by list price: its dearest place until the deadline.

    Raises:
        StoryError: no place can be had, or one has no known price.
    """
    command = [sys.executable, "-m", "provision", "plan", "--profile", str(story_folder / "profile.yml"), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    (story_folder / "plan.out").write_text(done.stdout)
    offers = [offer for offer in _data(done.stdout).get("offers", []) if offer["refusal"] is None]
    if done.returncode != 0 or not offers:
        why = _data(done.stdout).get("error", {}).get("message", "")
        msg = f"the plan has no place that can be had{f': {why}' if why else ''}"
        raise StoryError(msg, f"see {story_folder / 'plan.out'}", 2)
    if any(offer["price_to_deadline_usd"] is None or not offer["price_whole"] for offer in offers):
        msg = "the price of a place is not known, so no budget can be kept"
        raise StoryError(msg, "remove that place, or `gpuprov catalog refresh`", 2)
    return max(float(offer["price_to_deadline_usd"]) for offer in offers)


def unfinished(folder: Path) -> State | None:
    """The run of a folder that something ended before it was over; None where there is none."""
    try:
        data = json.loads(read_bounded(folder / "state.json", _STATE))
        steps = {name: Done(**done) for name, done in data.pop("steps").items()}
        state = State(**data, steps=steps)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return None if state.finished else state


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """A SIGTERM ends a run as Ctrl-C does: the machine is removed first."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _data(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _listed(text: str) -> list[str]:
    """What was learnt, a sentence each."""
    try:
        return [str(row["text"]) for row in json.loads(text)]
    except (ValueError, TypeError, KeyError):
        return []


def _picked(text: str, *names: str) -> dict[str, Any]:
    data = _data(text)
    return {name: data[name] for name in names if name in data}


def _outcomes(text: str) -> dict[str, int]:
    """How many checks had which outcome."""
    counted: dict[str, int] = {}
    data = _data(text)  # of verify or of up
    [report] = data.get("hosts", [{}])
    for finding in report.get("report", report).get("findings", []):
        counted[finding["outcome"]] = counted.get(finding["outcome"], 0) + 1
    return counted
