"""The probe on a real host: what it leaves is nothing, as root and as a plain user; and an nvidia-smi that hangs costs its own fact."""

import asyncio
import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from provision.cli import main
from provision.structs import replace
from provision.verify.facts import Facts
from provision.verify.facts.system import IdentityFacts, KernelFacts
from provision.verify.observe import observe
from provision.workflow.session import Session
from tests.waiting import until

from .conftest import Lab

pytestmark = pytest.mark.rehearsal

# What the kernel makes up at each look.
MADE_UP = ("proc", "sys", "dev/pts")
# What any login may write, with or without a probe, and not each time: the journal, and the session of systemd-logind.
LOGIN = ("var/log/journal", "run/systemd", "run/user", "run/log", "run/udev")
# As much of PyTorch as its profiler's wrapper asks for: a trace of a host that has no GPU.
TORCH = """
import gzip
class cuda: is_available = staticmethod(lambda: False)
class ProfilerActivity: CPU = CUDA = 1
class profile:
    def __init__(self, **_): pass
    def start(self): pass
    def stop(self): pass
    def export_chrome_trace(self, path):
        with gzip.open(path, "wt") as out: out.write('{"traceEvents": []}')
"""
# A framework that was installed without its compiled files, which an import as root would leave.
VENV = """
mkdir -p /opt/gpuprov/venvs/opencv/bin /opt/gpuprov/venvs/opencv/lib
ln -sf /usr/bin/python3 /opt/gpuprov/venvs/opencv/bin/python
printf 'home = /usr/bin\\n' > /opt/gpuprov/venvs/opencv/pyvenv.cfg
site=$(/opt/gpuprov/venvs/opencv/bin/python -c 'import site; print(site.getsitepackages()[0])')
mkdir -p "$site"
echo 'uint8 = 1' > "$site/numpy.py"
echo '__version__ = "0"' > "$site/cv2.py"
"""


@pytest.fixture(scope="module")
def machine(lab: Lab) -> Lab:
    """The host with root and a user without rights let in, and nothing else at work on it."""
    script = (
        "useradd -m -s /bin/bash plain; for home in /root /home/plain; do mkdir -p $home/.ssh; "
        "cp /home/ubuntu/.ssh/authorized_keys $home/.ssh/; chmod 700 $home/.ssh; done; chown -R plain: /home/plain; "
        "echo PermitRootLogin prohibit-password > /etc/ssh/sshd_config.d/00-root.conf; systemctl reload ssh; "
        "systemctl stop '*.timer' cron; :\n"
    )
    config = lab.target.config
    as_root = ["ssh", "-F", str(config), lab.target.destination, "sudo bash -s"]
    subprocess.run(as_root, input=script + VENV, text=True, check=True, capture_output=True)
    assert config is not None
    config.write_text(
        "".join(f"Host {user}\n User {user}\n HostKeyAlias lab\n ControlPath none\n" for user in ("root", "plain"))
        + config.read_text().replace("Host lab", "Host lab root plain")
    )
    return lab


@pytest.fixture(scope="module")
def inside(machine: Lab) -> Path:
    """The host's whole file system, every mount of it, seen from outside: looking leaves no trace there either."""
    address = machine.shell("echo $SSH_CONNECTION").split()[2]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            addresses = (process / "net/fib_trie").read_text()
            if f"|-- {address}\n" in addresses and (process / "status").read_text().find("NSpid:\t" + process.name + "\t1\n") > 0:
                return process / "root"
        except OSError:
            continue
    pytest.fail(f"no init of {address} on this machine")


def state(root: Path) -> dict[str, tuple[object, ...]]:
    """Every name, with kind, mode, owner, size, times of change, extended attributes and contents; not when it was last read."""
    seen: dict[str, tuple[object, ...]] = {}
    top = f"{root}/"
    for folder, folders, files in os.walk(top):
        here = folder[len(top) :]
        folders[:] = [name for name in folders if f"{here}/{name}".lstrip("/") not in MADE_UP]
        for name in [*folders, *files]:
            path = f"{folder}/{name}"
            try:
                known = os.lstat(path)
                kept = (known.st_mode, known.st_uid, known.st_gid, known.st_nlink, known.st_rdev, known.st_mtime_ns, known.st_ctime_ns)
                said = str(Path(path).readlink()) if stat.S_ISLNK(known.st_mode) else ""
                if stat.S_ISREG(known.st_mode):
                    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOATIME)) as file:
                        said = hashlib.file_digest(file, "blake2b").hexdigest()
                attributes = tuple((a, os.getxattr(path, a, follow_symlinks=False)) for a in os.listxattr(path, follow_symlinks=False))
            except FileNotFoundError:
                continue
            seen[f"{here}/{name}".lstrip("/")] = (*kept, known.st_size if stat.S_ISREG(known.st_mode) else 0, said, attributes)
    return seen


def changed(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def look(machine: Lab, user: str, timeout_s: float = 60) -> Facts:
    return asyncio.run(observe(replace(machine.target, name=user, destination=user), timeout_s=timeout_s))


def login(machine: Lab, user: str) -> None:
    """A login that does nothing."""
    subprocess.run(["ssh", "-F", str(machine.target.config), user, "true"], check=True, capture_output=True)


def settled(root: Path) -> dict[str, tuple[object, ...]]:
    """The state once systemd has finished with a login: two looks in a row see the same, apart from what any login may write."""
    now: dict[str, tuple[object, ...]] = {}

    def same() -> bool:
        nonlocal now
        before, now = now, state(root)
        return not {name for name in changed(before, now) if not name.startswith(LOGIN)}

    until(same, every_s=0.5)
    return now


@pytest.fixture
def no_time_service(machine: Lab) -> Iterator[None]:
    """timedatectl has systemd start a service with folders of its own, which ends by itself half a minute later."""
    machine.shell("sudo systemctl mask --quiet --runtime --now systemd-timedated")
    yield
    machine.shell("sudo systemctl unmask --quiet --runtime systemd-timedated")


@pytest.mark.usefixtures("no_time_service")
@pytest.mark.parametrize("user", ["root", "plain"])
def test_a_probe_leaves_the_host_as_it_was(machine: Lab, inside: Path, user: str) -> None:
    assert look(machine, user).read(IdentityFacts).user == user
    login(machine, user)
    earlier = settled(inside)
    login(machine, user)
    before = settled(inside)
    assert len(before) > 5000
    assert "home/plain/.bashrc" in before
    assert any(name.startswith("run/") for name in before), "other mounts are seen too"
    facts = look(machine, user)
    assert facts.read(KernelFacts).release == os.uname().release
    assert facts.raw["opencv"]["value"]["found"] is not None
    touched = changed(before, settled(inside)) - changed(earlier, before)
    assert {name for name in touched if not name.startswith(LOGIN)} == set()


def test_the_comparison_sees_what_it_is_there_to_see(machine: Lab, inside: Path) -> None:
    before = state(inside)
    machine.shell("sudo sh -c 'chmod 700 /opt; touch -d 2020-01-01 /etc/hostname; printf x > /dev/shm/left; echo >> /usr/local/left'")
    touched = changed(before, state(inside))
    assert {"opt", "etc/hostname", "dev/shm/left", "usr/local/left"} <= touched


@pytest.fixture
def hanging(machine: Lab) -> Iterator[Lab]:
    """A device node makes a GPU as far as the probe looks before it asks."""
    smi = "/usr/local/bin/nvidia-smi"
    machine.shell(f"sudo sh -c 'touch /dev/nvidia0; printf \"#!/bin/sh\\nexec sleep 77\\n\" > {smi}; chmod 755 {smi}'")
    yield machine
    machine.shell("sudo rm -f /dev/nvidia0 /usr/local/bin/nvidia-smi")


@pytest.mark.parametrize("user", ["root", "plain"])
def test_an_nvidia_smi_that_hangs_is_late_by_its_own_deadline_and_leaves_no_process(hanging: Lab, user: str) -> None:
    facts = look(hanging, user, timeout_s=400)
    assert "nvidia-smi did not end within 20 s" in facts.raw["driver"]["unknown"]
    assert facts.read(KernelFacts).release == os.uname().release
    assert hanging.shell("pgrep -fx 'sleep 77' || echo none") == "none"


def test_a_program_is_traced_without_nsys_and_without_a_gpu_and_nothing_is_left(
    machine: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "target", lambda *_: machine.target)
    machine.shell(f"mkdir -p torch && cat >torch/__init__.py <<'E'\n{TORCH}\nE")
    machine.shell("echo 'import torch; print(42)' >train.py; echo 'from torch import *' >torch/profiler.py")
    with pytest.raises(SystemExit) as ended:
        main(["trace", "lab", "--save", str(tmp_path), "--", "python3", "train.py"])
    out, err = capsys.readouterr()
    assert ended.value.code == 3, err
    assert "no GPU work in this trace" in out
    assert "no nsys" in err
    assert (tmp_path / "output").read_text() == "42\n"
    machine.shell("rm -r torch train.py")
    assert machine.shell("cd /tmp; ls -d gpuprov-trac*; true") == ""
    assert machine.shell("pgrep -f 'gpuprov-trac[e]'; true") == ""
