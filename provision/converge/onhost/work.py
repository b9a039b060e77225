"""The run of a bundle's roles on the host itself, by ansible-runner and Ansible's local connection; it tells each task in a file.

It needs the Python that Ansible needs, and the engine in the bundle. No connection is needed for it to go on.
"""

import json
import os
import re
import shutil
import sys
import threading
import time
from pathlib import Path

from provision.converge.drive import Play, drive

# By default Python looks for cycles hundreds of times while Ansible is imported, an eighth of the CPU time of a short run.
LAUNCH = """\
import gc, sys
gc.set_threshold(20_000, 50, 50)
sys.path.insert(0, sys.argv.pop(1))
from ansible.cli.playbook import main
main()
"""
KINDS = {"playbook_on_task_start", "runner_on_ok", "runner_on_failed", "runner_on_skipped", "runner_on_unreachable"}
# Ansible cannot restart the machine that it runs on; whoever follows the run does.
REBOOT = "ansible.builtin.reboot"
# What the first boot downloads (provision/clouds/ahead.py), and the unit that does it: it is gone when the unit has ended.
AHEAD = Path("/var/cache/gpuprov/ahead")
AHEAD_UNIT = Path("/run/systemd/transient/gpuprov-ahead.service")
AHEAD_LONGEST_S = 1800.0
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
MOST_TEXT = 16_000
MOST_EVENT = 400_000


class Teller:
    """The file with what the run tells, a line of JSON for each event."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.reboot = False

    def tell(self, **words):
        """Add a line; whole, or not at all."""
        os.write(self.file, (json.dumps(words, default=str) + "\n").encode())

    def take(self, event):
        """An event of ansible-runner; none stays among its artefacts, because all that counts is told."""
        kind, data = event.get("event"), event.get("event_data", {})
        if kind not in KINDS:
            return False
        result = data.get("res") or {}
        if kind == "runner_on_failed" and data.get("task_action") == REBOOT and not data.get("ignore_errors"):
            self.reboot = True
            return False
        kept = {key: data[key] for key in ("task", "role", "duration", "ignore_errors") if data.get(key)}
        if kind in {"runner_on_failed", "runner_on_unreachable"}:
            kept["res"] = short(result)
        elif kind == "runner_on_ok":
            kept["res"] = {key: short(result[key]) for key in ("changed", "diff", "warnings") if result.get(key)}
        if len(json.dumps(kept, default=str)) > MOST_EVENT:
            kept["res"] = {key: short(result.get(key)) for key in ("changed", "msg", "stderr", "stdout") if result.get(key)}
        self.tell(event=kind, event_data=kept)
        return False


def short(value):
    """A value whose texts have no more characters than a reader needs."""
    if isinstance(value, str):
        return value if len(value) <= MOST_TEXT else value[: MOST_TEXT // 2] + " … " + value[-MOST_TEXT // 2 :]
    if isinstance(value, dict):
        return {str(key): short(item) for key, item in value.items() if key not in {"before", "after"} or "prepared" not in value}
    if isinstance(value, (list, tuple)):
        return [short(item) for item in value]
    return value


def downloaded(teller, values, roles, unit=AHEAD_UNIT, folder=AHEAD, longest_s=AHEAD_LONGEST_S):
    """Wait for what the first boot downloads, which the roles would download again.

    Returns what pip is told: to ask no index where every wheel that the values of these roles name is here.
    """
    began = time.monotonic()
    if unit.exists():
        task = {"task": "Wait for the downloads that began at boot"}
        teller.tell(event="playbook_on_task_start", event_data=task)
        while unit.exists() and time.monotonic() < began + longest_s:
            time.sleep(0.5)
        teller.tell(event="runner_on_ok", event_data={**task, "duration": time.monotonic() - began, "res": {}})
    needed = set(HASH.findall(json.dumps([values.get(f"{role}_wheels") for role in roles])))
    kept = folder / "digests"
    if not needed or not kept.exists() or needed - set(kept.read_text().split()):
        return {}
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder / "wheels")}


def main(folder, config):
    """Run the roles of a configuration layer, and tell how it ended; the exit code is Ansible's.

    What lies in the run's own folder already counts before what the layer has: a member of a fleet decides which roles it needs.
    """
    place, layer = Path(folder), Path(config)
    teller, stopped = Teller(place / "told"), threading.Event()
    for name in ("run.json", "variables.json", "inventory.json"):
        if not (place / name).exists():
            shutil.copyfile(layer / name, place / name)
    asked = json.loads((place / "run.json").read_text())
    engine = str(Path(__file__).resolve().parents[3])
    os.environ.setdefault("HOME", "/root")
    os.environ.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    try:
        early = downloaded(teller, json.loads((place / "variables.json").read_text()), asked["tags"])
        play = Play(
            place,
            layer / "site.yml",
            layer,
            (sys.executable, "-I", "-c", LAUNCH, engine),
            asked["tags"],
            asked["flags"],
            more={"ANSIBLE_PIPELINING": "True", **early},  # ansible.cfg says pipelining of SSH alone
        )
        code, output = drive(play, teller.take, stopped)
    except KeyboardInterrupt:
        teller.tell(end={"stopped": True})
        sys.exit(130)
    if code == 0:
        shutil.rmtree(AHEAD, ignore_errors=True)
    teller.tell(end={"code": code, "output": output[-64_000:], "reboot": teller.reboot})
    sys.exit(code)
