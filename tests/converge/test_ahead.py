"""A real host that begins its downloads at boot: before sshd answers, by the lock's digests and keys, and used by its set-up."""

from __future__ import annotations

import datetime as dt
import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from provision.catalog import overlay
from provision.clouds import ahead
from provision.clouds.userdata import Downloads, PackageSource, user_data
from provision.converge.onhost import work
from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal
from provision.profile.lock import build
from provision.profile.model import Profile
from provision.rehearsal import rootfs
from provision.structs import asdict, replace
from provision.workflow.converging import Converging, converge_host
from provision.workflow.session import Session
from tests.wheel_index import Index

from .conftest import Lab, booted
from .repository import Package, Repository

pytestmark = [pytest.mark.rehearsal, pytest.mark.matrix(of=4, turn=2)]

TODAY = dt.date(2026, 11, 25)
early: Callable[..., dict[str, str]] = work.downloaded  # it has no types, as what runs on a host
WHEELS = "/var/cache/gpuprov/ahead/wheels"


@dataclass(frozen=True)
class Boot:
    lab: Lab
    index: Index
    repository: Repository


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boot]:
    folder = tmp_path_factory.mktemp("boot")
    (folder / "index").mkdir()
    made: list[tuple[Index, Repository]] = []

    def first_boot(gateway: str) -> bytes:
        index = Index(folder / "index", {"torch": {"2.10.0": ("numpy",)}, "numpy": {"2.3.1": ()}}, gateway)
        repository = Repository(folder / "apt", gateway)
        made.append((index, repository))
        repository.add([Package("cuda-toolkit-13-2", "13.2.0-1", {"usr/share/cuda": "a"})])
        text = user_data(deadline=dt.datetime.now(dt.UTC) + dt.timedelta(hours=4), downloads=asked(index, repository))
        head, _, rest = text.partition("\n")
        document = json.loads(rest)
        # Not through the caching proxy of rehearsal hosts, which leads to Debian's servers alone.
        direct = f"""echo 'Acquire::http::Proxy::{gateway} "DIRECT";' > /etc/apt/apt.conf.d/02-direct"""
        document["bootcmd"].insert(0, ["sh", "-c", direct])
        return f"{head}\n{json.dumps(document)}".encode()

    with booted(folder, "own", first_boot) as lab:
        ((index, repository),) = made
        yield Boot(lab, index, repository)
        index.close()
        repository.close()


def asked(index: Index, repository: Repository, fingerprint: str = "") -> Downloads:
    wheels = tuple((pin.split()[0], index.pins[pin].rpartition(":")[2]) for pin in index.pins)
    key = f"{repository.url}key.asc"
    source = PackageSource("nvidia", repository.url, "/", key=key, fingerprint=fingerprint or repository.fingerprint)
    return Downloads(wheels, index.url, ("cuda-toolkit-13-2", "tmux"), (source,), least_free_gb=1)


def set_up(lab: Lab, profile: Profile, role: str, folder: Path) -> list[str]:
    """Have the host run a role itself; what it tells of its tasks."""
    state, told = folder / "state", list[str]()
    state.mkdir()
    session = Session(state, Journal(state / "launches"), SshHome(state / "ssh", folder / "ssh_config"))
    asked = Converging(lab.target, profile, build(profile, TODAY, system=rootfs.system()), (role,), folder / "run", login="ubuntu")
    converge_host(session, asked, say=lambda _: None, on_task=lambda p: told.append(f"{p.state} {p.task}"))
    return told


def test_downloads_begin_before_ssh_answers_are_used_by_the_set_up_and_then_removed(
    boot: Boot, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, index = boot.lab, boot.index
    began, listens = (
        float(lab.shell(f"sudo journalctl --boot --unit {unit} --output short-unix --grep '{text}' | head -n 1").split()[0])
        for unit, text in (("gpuprov-ahead", "Started"), ("ssh", "Server listening"))
    )
    assert began < listens

    monkeypatch.setenv("GPUPROV_OVERLAY", str(tmp_path / "overlay.json"))
    text = f"{index.pins['torch 2.10.0']}\n{index.pins['numpy 2.3.1']}\n"
    refreshed = overlay.Part("wheels", dt.datetime(2026, 11, 25, tzinfo=dt.UTC), "a test")
    overlay.write(overlay.Overlay(parts=[refreshed], wheels={"torch-2.10.0-cp311": text}))
    plain = profile.dump()
    plain["stack"] |= {"frameworks": {"pytorch": "2.10.0"}, "extras": []}
    plain["sources"]["wheels"] = {"url": index.url}
    profile = Profile.model_validate(plain)
    lab.shell("for n in $(seq 600); do [ -e /run/systemd/transient/gpuprov-ahead.service ] || exit 0; sleep 0.2; done; exit 1")
    assert lab.shell(f"sudo ls {WHEELS}").split() == ["numpy-2.3.1-py3-none-any.whl", "torch-2.10.0-py3-none-any.whl"]
    assert "cuda-toolkit-13-2_13.2.0-1_amd64.deb" in lab.shell("ls /var/cache/apt/archives")
    assert lab.shell("dpkg-query --show --showformat '${Status}' cuda-toolkit-13-2", check=False) == ""

    index.asked.clear()
    set_up(lab, profile, "pytorch", tmp_path)
    assert lab.shell("/opt/gpuprov/venvs/pytorch/bin/python -c 'import torch; print(torch.__version__)'") == "2.10.0"
    assert index.asked == []
    assert lab.shell("sudo ls /var/cache/gpuprov") == ""

    lab.reboot()
    lab.shell("sudo cloud-init status --wait", check=False)
    assert lab.shell("sudo journalctl --boot --unit gpuprov-ahead --output cat") in {"", "-- No entries --"}


def test_a_wheel_that_did_not_come_is_had_from_the_index(tmp_path: Path) -> None:
    """The values of a run name a wheel more than the boot has downloaded."""
    kept = tmp_path / "digests"
    kept.write_text(f"{'0' * 64}\n{'1' * 64}\n")
    pins = [f"{n}==1 --hash=sha256:{n * 64}" for n in "012"]

    def told(wheels: list[str], role: str = "pytorch") -> dict[str, str]:
        return early(None, {"pytorch_wheels": wheels, "jax_wheels": []}, ["preflight", role], tmp_path / "no unit", tmp_path)

    local = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    assert [told(pins[:count]) for count in range(4)] == [{}, local, local, {}]
    assert told(pins, "jax") == {}
    kept.unlink()
    assert told(pins[:1]) == {}


def test_the_set_up_waits_for_downloads_that_go_on(boot: Boot, profile: Profile, tmp_path: Path) -> None:
    boot.lab.shell("sudo systemd-run --quiet --collect --unit gpuprov-ahead sleep 6")
    plain = profile.dump()
    plain["stack"] |= {"frameworks": {}, "extras": [], "tools": ["make"]}
    told = set_up(boot.lab, Profile.model_validate(plain), "base", tmp_path)
    assert told[:2] == [f"{state} Wait for the downloads that began at boot" for state in ("started", "ok")]
    assert boot.lab.shell("ls /run/systemd/transient", check=False).find("gpuprov-ahead") == -1


def test_apt_takes_nothing_from_a_repository_whose_key_is_not_the_one_of_the_lock(boot: Boot) -> None:
    lab, program = boot.lab, Path(ahead.__file__).read_text()
    lab.shell("sudo rm -f /var/cache/apt/archives/*.deb")
    wrong = replace(asked(boot.index, boot.repository, "0" * 40), wheels=())
    words = json.dumps({**asdict(wrong), "environment": {}})
    lab.shell(f"echo {shlex.quote(words)} > asked.json")
    said = lab.shell(f"sudo python3 -Ic {shlex.quote(program)} asked.json 2>&1")
    assert "packages: Command" in said
    assert "cuda" not in lab.shell("ls /var/cache/apt/archives")
