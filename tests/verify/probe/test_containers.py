"""The probe's containers: the files that a container gets are enough for a Python, and what engines and files say is read right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def test_the_copied_files_are_enough_for_a_python_in_a_root_of_its_own(probe: Any, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    python = probe.containers.lay_out_root(str(tmp_path))
    argv = ["chroot", str(tmp_path), python, "-I", "-S", "-B", "-c", probe.containers.ADD_PROGRAM]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=probe.containers.PLAIN)
    answer = json.loads(done.stdout.partition("gpuprov-json=")[2])
    assert (answer["uid"], answer["library"], answer["devices"]) == (0, "", [])
    assert "libcuda.so.1" in answer["error"]


def test_the_program_launches_one_thread_for_each_number_on_every_gpu(probe: Any, tmp_path: Path) -> None:
    """A driver of the test's own, which does on the processor what the launch asks for."""
    driver = tmp_path / "driver.c"
    driver.write_text(
        "#include <string.h>\ntypedef unsigned long long u64;\n"
        "int cuInit(unsigned f) { return 0; }\nint cuDeviceGetCount(int *n) { *n = 2; return 0; }\n"
        "int cuDeviceGet(int *d, int i) { *d = i; return 0; }\nstatic int now;\n"
        "int cuCtxCreate_v2(void **c, unsigned f, int d) { now = d; *c = (void *)1; return 0; }\n"
        "int cuCtxDestroy_v2(void *c) { return 0; }\n"
        'int cuModuleLoadData(void **m, const char *t) { *m = (void *)1; return strstr(t, ".entry add(") ? 0 : 218; }\n'
        'int cuModuleGetFunction(void **f, void *m, const char *n) { *f = (void *)1; return strcmp(n, "add") ? 500 : 0; }\n'
        "int cuMemAlloc_v2(u64 *p, u64 n) { static u64 memory; *p = (u64)&memory; return n == 8 ? 0 : 2; }\n"
        "int cuMemsetD8_v2(u64 p, unsigned char v, u64 n) { memset((void *)p, v, n); return 0; }\n"
        "int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned s, void *q,\n"
        "                   void **arguments, void *more) {\n  if (now == 1) return 700;\n"
        "  u64 *there = *(u64 **)arguments[0];\n  for (u64 i = 0; i < x * bx; i++) *there += i;\n  return 0;\n}\n"
        "int cuMemcpyDtoH_v2(void *h, u64 p, u64 n) { memcpy(h, (void *)p, n); return 0; }\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", driver], check=True)
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
        ('{"runtimes": {"nvidia": {}}}', {"runtimes": ["nvidia"], "cdi": False}),
        ('{"features": {"cdi": true}}', {"runtimes": [], "cdi": True}),
        ('{"features": {"cdi": "yes"}}', {"runtimes": [], "cdi": False}),
    ],
)
def test_what_docker_is_told_is_read_from_its_file(
    probe: Any, monkeypatch: pytest.MonkeyPatch, text: str, settings: dict[str, Any]
) -> None:
    monkeypatch.setattr(probe.containers, "read", lambda _path: text)
    assert probe.containers.docker_settings() == settings


@pytest.mark.parametrize("text", ["{", "[]", '{"runtimes": []}', '{"features": 1}'])
def test_a_file_of_docker_that_is_no_such_file_is_unknown(probe: Any, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(probe.containers, "read", lambda _path: text)
    if text == '{"runtimes": []}':
        assert probe.containers.docker_settings() == {"runtimes": [], "cdi": False}
        return
    with pytest.raises(probe.run.Unknown, match="no JSON object"):
        probe.containers.docker_settings()
