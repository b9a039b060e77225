"""What this machine lacks is said before anything is made: each gap is a real one, in a process that really lacks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from provision.rehearsal import requirements

ROOT = Path(__file__).parents[2]
CHECK = (sys.executable, "-m", "provision", "rehearse", "check", "--json")


def check(*before: str, code: int = 2, **environment: str) -> list[dict[str, str]]:
    """The gaps that `gpuprov rehearse check` finds when it is run by these words."""
    done = subprocess.run(
        [*before, *CHECK],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        cwd=ROOT,
    )
    assert done.returncode == code, done.stderr
    data = json.loads(done.stdout)
    gaps: list[dict[str, str]] = data["gaps"]
    assert data["ready"] is (gaps == [])
    assert all(gap["what"] and gap["how"] and "\n" not in gap["what"] + gap["how"] for gap in gaps)
    return gaps


def within(script: str) -> list[str]:
    """The words that run a program in a mount namespace of its own, after a script."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-euc", f'{script}; exec "$@"', "sh"]


def on_machine(folder: Path) -> list[str]:
    """Whatever a check could leave: devices, mounts, links and groups of anybody's check, and the files of a folder."""
    listings = (["losetup", "--list"], ["mount"], ["ip", "link"], ["ls", "-a", "/sys/fs/cgroup"])
    text = "".join(subprocess.run(argv, capture_output=True, text=True, check=True).stdout for argv in listings)
    return [line for line in text.splitlines() if str(folder) in line or "gpuprov-trial" in line] + [
        str(p) for p in folder.rglob("*") if p.is_file() or p.name == "rehearsal"
    ]


@pytest.mark.rehearsal
def test_a_machine_that_has_everything_is_said_to_have_it_and_nothing_is_left(tmp_path: Path) -> None:
    assert check(code=0, GPUPROV_HOME=str(tmp_path / "home"), GPUPROV_CACHE=str(tmp_path / "cache")) == []
    assert on_machine(tmp_path) == []


@pytest.mark.rehearsal
@pytest.mark.parametrize(("most", "is_named"), [(9, True), (10, False)])
def test_a_machine_without_inotify_instances_for_one_more_host_is_told(tmp_path: Path, most: int, is_named: bool) -> None:  # noqa: FBT001
    """The limit is that of a user namespace, so that no other test feels it; what else such a namespace lacks is named as well."""
    script = f'echo {most} >/proc/sys/user/max_inotify_instances; exec "$@"'
    gaps = check(
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-euc",
        script,
        "sh",
        GPUPROV_HOME=str(tmp_path / "h"),
        GPUPROV_CACHE=str(tmp_path / "c"),
    )
    named = [gap for gap in gaps if "instances are left" in gap["what"]]
    assert [gap["what"] for gap in named] == (["9 inotify instances are left, and a host takes 10"] if is_named else [])


@pytest.mark.rehearsal
@pytest.mark.parametrize(
    ("before", "what"),
    [
        (["setpriv", "--bounding-set=-net_admin"], "no bridge and no veth pair"),
        (["setpriv", "--bounding-set=-mknod"], "no device node"),
        (["setpriv", "--bounding-set=-sys_admin"], "namespaces cannot be made (mount, pid, net, uts, ipc, cgroup: unshare"),
        (within("mount -t tmpfs none /dev; touch /dev/null"), "no loop device"),
        (within("mount -t tmpfs none /sys/fs/cgroup"), "no control group can be made"),
        (within("mount -t tmpfs -o ro none $GPUPROV_HOME"), "no folder can be made"),
        (
            within(
                "cd $GPUPROV_HOME; mount -t tmpfs none .; cd $PWD; mkdir l u w; mount -t overlay x -o lowerdir=l,upperdir=u,workdir=w $PWD"
            ),
            "no overlay",
        ),
    ],
    ids=lambda value: value.split("(")[0].strip().replace(" ", "-") if isinstance(value, str) else "",
)
def test_what_the_kernel_refuses_is_the_one_gap(before: Sequence[str], what: str, tmp_path: Path) -> None:
    (gap,) = check(*before, GPUPROV_HOME=str(tmp_path))
    assert gap["what"].startswith(what)
    assert on_machine(tmp_path) == []


@pytest.mark.rehearsal
def test_a_chroot_is_named_as_what_to_leave(tmp_path: Path) -> None:
    binds = "; ".join(f'mkdir "$0{path}"; mount --rbind {path} "$0{path}"' for path in sorted(Path("/").iterdir()) if path.is_dir())
    script = f'{binds}; exec chroot "$0" sh -c \'cd {ROOT}; exec "$@"\' sh "$@"'
    (gap,) = check("unshare", "--mount", "--propagation", "private", "sh", "-euc", script, str(tmp_path), GPUPROV_HOME="/var/gpuprov")
    assert gap["what"].startswith("namespaces cannot be made (mount: ")
    assert "chroot" in gap["how"]


@pytest.mark.rehearsal
def test_a_root_that_cannot_be_exchanged_is_named(tmp_path: Path) -> None:
    """Nothing but an initial RAM disk does that, so the program is one that refuses."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pivot_root"
    program.write_text("#!/bin/sh\necho failed to change root >&2; exit 1\n")
    program.chmod(0o755)
    (gap,) = check(PATH=f"{program.parent}:{os.environ['PATH']}")
    assert gap["what"] == "pivot_root is refused (failed to change root)"


@pytest.mark.rehearsal
@pytest.mark.parametrize(("tool", "package"), [("mmdebstrap", "mmdebstrap"), ("setpriv", "util-linux"), ("ssh", "openssh-client")])
def test_a_program_that_is_missing_is_said_with_its_package(tool: str, package: str, tmp_path: Path) -> None:
    for program in Path("/usr/bin").iterdir():
        if program.name != tool:
            (tmp_path / program.name).symlink_to(program)
    assert check(PATH=str(tmp_path)) == [{"what": f"programs are missing: {tool}", "how": f"apt-get install {package}"}]


def test_packages_that_are_missing_are_said_once_with_the_extra() -> None:
    program = "import sys; sys.modules['proxpi'] = sys.modules['psutil'] = None; from provision.cli import main; main(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", program, *CHECK[3:]], capture_output=True, text=True, check=False, cwd=ROOT)
    first = json.loads(done.stdout)["gaps"][0]
    assert (done.returncode, first["what"]) == (2, "Python packages of the extra rehearse are missing: proxpi, psutil")
    assert "'.[rehearse]'" in first["how"]


@pytest.mark.rehearsal
def test_a_machine_without_package_lists_is_told_to_get_them() -> None:
    """As a container's image is, in which somebody removed them."""
    gaps = check(*within("mount -t tmpfs none /var/lib/apt/lists"))
    assert gaps == [{"what": "apt has no package lists of Debian or Ubuntu, from which hosts are made", "how": "apt-get update"}]


@pytest.mark.rehearsal
def test_a_disk_without_room_for_a_host_is_named(tmp_path: Path) -> None:
    (gap,) = check(*within("mount -t tmpfs -o size=2G none $GPUPROV_HOME"), GPUPROV_HOME=str(tmp_path))
    assert gap["what"] == f"{tmp_path} has 2.1 GB free, and a rehearsal host takes 6"


@pytest.mark.rehearsal
def test_neither_systemd_nor_names_of_protocols_are_needed(tmp_path: Path) -> None:
    """A minimal Debian 12 has neither systemctl nor /etc/protocols."""
    for program in Path("/usr/bin").iterdir():
        if program.name != "systemctl":
            (tmp_path / program.name).symlink_to(program)
    assert check(*within("! [ -e /etc/protocols ] || mount --bind /dev/null /etc/protocols"), code=0, PATH=str(tmp_path)) == []


@pytest.mark.rehearsal
def test_who_is_not_root_is_told_to_be(tmp_path: Path) -> None:
    # Somebody else, who may read wherever Python happens to lie.
    other = (
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    )
    (gap,) = check(*other, GPUPROV_HOME=str(tmp_path / "home"))
    assert gap["how"] == 'run `sudo "$(command -v gpuprov)" …`'


@pytest.mark.rehearsal
@pytest.mark.parametrize("words", [("up", "--profile", "t4-train", "--rehearse"), ("rehearse", "start"), ("rehearse", "check")])
def test_every_command_refuses_with_the_same_words_before_anything_is_made(words: Sequence[str], tmp_path: Path) -> None:
    done = subprocess.run(
        ["setpriv", "--bounding-set=-mknod", sys.executable, "-m", "provision", *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GPUPROV_HOME": str(tmp_path)},
        cwd=ROOT,
    )
    assert done.returncode == 2, done.stderr
    assert "no device node can be made (mknod: " in done.stdout + done.stderr
    assert "keep CAP_MKNOD" in done.stdout + done.stderr
    assert ("error[rehearsal-unavailable]: " in done.stderr) is (words[-1] != "check")
    log = ("audit.jsonl", "audit.lock")  # that somebody wanted to launch is in the log of changes
    assert [path for path in on_machine(tmp_path) if not path.endswith(log)] == []


def test_without_hosts_no_tool_and_no_right_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "search_path", lambda: str(tmp_path))
    assert requirements.gaps(tmp_path, hosts=False) == []
