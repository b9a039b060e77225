"""The probe's containers: the files that a container gets are enough for a Python, and what engines and files say is read right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stand_in_driver import build_driver


def test_the_copied_files_are_enough_for_a_python_in_a_root_of_its_own(probe: Any, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    python = probe.containers.lay_out_root(str(tmp_path))
    argv = ["chroot", str(tmp_path), python, "-I", "-S", "-B", "-c", probe.containers.ADD_PROGRAM]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=probe.containers.PLAIN)
    answer = json.loads(done.stdout.partition("gpuprov-json=")[2])
    assert (answer["uid"], answer["library"], answer["devices"]) == (0, "", [])
    assert "libcuda.so.1" in answer["error"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
def test_the_program_launches_one_thread_for_each_number_on_every_gpu(probe: Any, tmp_path: Path) -> None:
    """A driver of the test's own, which does on the processor what the launch asks for."""
    build_driver(tmp_path, gpus=2, fails=1)
    argv = [sys.executable, "-c", probe.containers.ADD_PROGRAM]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.partition("gpuprov-json=")[2])
    assert (answer["error"], answer["library"]) == ("", "libcuda.so.1")
    assert answer["devices"] == [{"sum": 65535 * 65536 // 2}, {"error": "cuLaunchKernel: 700"}]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("level=warning msg=cgroups\nError: unresolvable CDI devices nvidia.com/gpu=all\nlevel=warning msg=dbus\n", "Error: unresolvable"),
        ("docker: Error response from daemon: unknown runtime\n", "docker: Error response"),
        ("something else\n", "something else"),
        ("", ""),
    ],
)
def test_an_engines_reason_is_its_error_and_not_its_last_warning(probe: Any, said: str, line: str) -> None:
    assert probe.containers.complaint_of("", said).startswith(line)
    assert bool(probe.containers.complaint_of("", said)) == bool(line)


def test_no_container_is_started_unless_one_is_asked_for(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.containers, "with_podman", lambda _gpu: pytest.fail("started"))
    monkeypatch.setattr(probe.containers, "with_docker", lambda _gpu: pytest.fail("started"))
    with pytest.raises(probe.run.Unknown, match="asked for no container"):
        probe.containers.container_run()
    monkeypatch.setitem(probe.run.REQUEST, "containers", "podman")
    monkeypatch.setattr(probe.containers.shutil, "which", lambda _name: None)
    assert (probe.containers.container_run()["code"], probe.containers.container_run()["engine"]) == (127, "podman")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ('{"runtimes": {"nvidia": {}}}', {"runtimes": ["nvidia"], "cdi": False, "systemd": True}),
        ('{"features": {"cdi": true}}', {"runtimes": [], "cdi": True, "systemd": True}),
        ('{"features": {"cdi": "yes"}}', {"runtimes": [], "cdi": False, "systemd": True}),
        ('{"exec-opts": ["native.cgroupdriver=cgroupfs"]}', {"runtimes": [], "cdi": False, "systemd": False}),
    ],
)
def test_what_docker_is_told_is_read_from_its_file(
    probe: Any, monkeypatch: pytest.MonkeyPatch, text: str, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(probe.containers, "read", lambda _path: text)
    for test in (os.path.exists, os.path.isdir):  # the version of cgroups, and systemd
        monkeypatch.setattr(os.path, test.__name__, lambda path, real=test: path.startswith(("/sys/fs/cgroup/", "/run/sys")) or real(path))
    assert probe.containers.docker_settings() == settings


# What `nvidia-ctk` writes: api/config/v1/toml_test.go of NVIDIA's Container Toolkit 1.20.
TOOLKIT = """disable-require = false

[nvidia-container-cli]
load-kmods = true

[nvidia-container-runtime]
log-level = "info"
mode = "auto"
runtimes = ["runc", "crun"]

[nvidia-container-runtime.modes.legacy]
mode = "x"
"""


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (TOOLKIT, "auto"),
        (TOOLKIT.replace('"auto"', '"legacy"'), "legacy"),
        (TOOLKIT.replace('mode = "auto"', '#mode = "auto"'), "auto"),
        (TOOLKIT.replace("[nvidia-container-runtime]", "[other]").replace('"auto"', '"legacy"'), "auto"),
        (None, "auto"),
    ],
)
def test_the_mode_of_nvidias_runtime_is_the_one_in_its_own_section(
    probe: Any, monkeypatch: pytest.MonkeyPatch, text: str | None, mode: str
) -> None:
    monkeypatch.setattr(probe.containers, "read", {"/etc/nvidia-container-runtime/config.toml": text}.__getitem__)
    assert probe.containers.runtime_mode() == mode


@pytest.mark.parametrize("text", ["{", "[]", '{"runtimes": []}', '{"features": 1}', '{"exec-opts": 1}'])
def test_a_file_of_docker_that_is_no_such_file_is_unknown(probe: Any, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(probe.containers, "read", lambda _path: text)
    if text == '{"runtimes": []}':
        assert probe.containers.docker_settings()["runtimes"] == []
        return
    with pytest.raises(probe.run.Unknown, match="not a JSON object"):
        probe.containers.docker_settings()


@pytest.fixture
def laid_out(probe: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What gets which owner, in that order; the container's root is one folder with one file."""
    owners: list[tuple[str, int]] = []

    def lay_out_root(root: str) -> str:
        Path(root, "etc").mkdir()
        Path(root, "etc", "passwd").write_text("x")
        return "python3"

    monkeypatch.setattr(probe.containers, "lay_out_root", lay_out_root)
    monkeypatch.setattr(os, "chown", lambda path, uid, _gid, **_more: owners.append((path, uid)))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return owners


def test_the_way_to_what_root_gives_away_is_given_away_last(probe: Any, laid_out: list[tuple[str, int]]) -> None:
    """Once the folder is another user's, a name in it may lead anywhere."""
    with probe.containers.container_folder(65534) as (folder, _):
        given = [path.removeprefix(folder) for path, uid in laid_out if uid == 65534]
    assert given[-1] == ""
    assert sorted(given[:-1]) == ["/home", "/root", "/root/etc", "/root/etc/passwd", "/run", "/tmp"]


def test_root_packs_an_image_in_no_folder_of_another_user(
    probe: Any, laid_out: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def command(argv: list[str], _timeout_s: float, **_more: Any) -> tuple[int, str, str]:
        ran.append(argv)
        return 1, "", "Error: no service"

    monkeypatch.setattr(probe.containers, "command", command)
    monkeypatch.setattr(probe.containers, "as_member_of_docker", lambda: ["setpriv"])
    monkeypatch.setattr(probe.containers, "docker_settings", lambda: None)
    assert probe.containers.with_docker(has_gpu=False)["code"] == 1
    assert (ran[0][:3], laid_out) == (["setpriv", "docker", "import"], [])


def test_a_number_in_a_users_file_is_ended_as_that_user(
    probe: Any, laid_out: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """She could name any process, or -1 for all of them."""
    assert not laid_out
    ran: list[list[str]] = []

    def command(argv: list[str], _timeout_s: float, **more: Any) -> tuple[int, str, str]:
        Path(more["cwd"], "run", "pause.pid").write_text("-1")
        ran.append(argv)
        return 1, "", "Error: no podman"

    monkeypatch.setattr(probe.containers, "command", command)
    monkeypatch.setattr(probe.containers, "stepping_down", lambda: ["setpriv"])
    monkeypatch.setattr(os, "kill", lambda pid, _signal: pytest.fail(f"root ended {pid}"))
    assert probe.containers.with_podman(has_gpu=False)["code"] == 1
    assert all(argv[0] == "setpriv" for argv in ran)
    assert any("pause.pid" in argv for argv in ran)
