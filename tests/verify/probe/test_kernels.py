"""The probe's kernels of CUTLASS and OpenCL: what is compiled, for which architecture, and what is made of the answers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .host import tool

HEADER = "venvs/pytorch/lib/python3.12/site-packages/cutlass_library/source/include/cutlass/gemm/device/gemm.h"
RAN = {"capability": "sm_90", "code": "sm_90", "sums": 32768, "wrong": 0, "error": ""}
NVCC = """
echo "$*" >> "$JOURNAL"
case "$*" in *--list-gpu-code) printf 'sm_52\\nsm_61\\nsm_75\\nsm_90\\n'; exit;; *-E*) exit;; esac
for last; do folder=${last%/*}; done
printf '#!/bin/sh\\necho "gpuprov-json=$ANSWER"\\n' > "$folder/add"
chmod 755 "$folder/add"
"""


@pytest.fixture
def journal(probe: Any, bin_folder: Path, tmp_path: Path, monkeypatch: Any) -> Path:
    """A host with CUTLASS's headers and an nvcc that writes down what it was asked for."""
    (bin_folder / "chmod").symlink_to("/bin/chmod")
    tool(bin_folder, "nvcc", NVCC)
    monkeypatch.setenv("JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setenv("ANSWER", json.dumps({"release": "4.2.0", "error": "", "devices": [RAN]}))
    (tmp_path / HEADER).parent.mkdir(parents=True)
    (tmp_path / HEADER).touch()
    monkeypatch.setattr(probe.kernels, "VENVS", str(tmp_path / "venvs"))
    monkeypatch.setattr(probe.stack, "ordinary", list)
    monkeypatch.setattr(probe.stack, "architectures", lambda: ["sm_90"])
    return tmp_path / "journal"


def test_a_product_is_compiled_against_the_wheels_headers_for_the_architecture_of_the_gpu(probe: Any, journal: Path) -> None:
    trial = probe.kernels.cutlass()["found"]
    assert (trial["step"], trial["code"], trial["release"], trial["devices"]) == ("run", 0, "4.2.0", [RAN])
    asked = journal.read_text().splitlines()[-1].split()
    assert f"-I{journal.parent}/{HEADER.partition('/cutlass/')[0]}" in asked
    assert {"arch=compute_90,code=sm_90", "-DGPUPROV_ARCH=Sm80", "-std=c++17"} <= set(asked)


@pytest.mark.parametrize(
    ("gpus", "arch"), [(["sm_70"], "Sm70"), (["sm_75"], "Sm75"), (["sm_75", "sm_90"], "Sm75"), (["sm_100a"], "Sm80"), (["sm_120"], "Sm80")]
)
def test_the_product_is_one_that_every_gpu_of_the_host_runs(probe: Any, gpus: list[str], arch: str) -> None:
    assert probe.kernels.tensor_cores(gpus) == arch


def test_without_a_gpu_it_is_compiled_for_the_first_with_tensor_cores_and_not_run(probe: Any, journal: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(probe.stack, "architectures", list)
    trial = probe.kernels.cutlass()["found"]
    assert (trial["step"], trial["built"], trial["release"]) == ("compile", ["sm_75"], "")
    assert "-DGPUPROV_ARCH=Sm75" in journal.read_text()


def test_without_the_headers_nothing_is_compiled(probe: Any, journal: Path) -> None:
    (journal.parent / HEADER).unlink()
    assert probe.kernels.cutlass() == {"found": None}
    assert not journal.exists()


@pytest.fixture
def vendors(probe: Any, bin_folder: Path, tmp_path: Path, monkeypatch: Any) -> Path:
    """A host with a list of OpenCL's drivers, and a loader's cache with NVIDIA's library."""
    (tmp_path / "vendors").mkdir()
    monkeypatch.setattr(probe.kernels, "VENDORS", str(tmp_path / "vendors"))
    monkeypatch.setattr(probe.kernels, "ordinary", list)
    tool(bin_folder, "ldconfig", "printf '\\tlibnvidia-opencl.so.1 (libc6,x86-64) => /lib/libnvidia-opencl.so.1\\n'")
    which = probe.kernels.shutil.which
    monkeypatch.setattr(probe.kernels.shutil, "which", lambda name, **_: which(name))
    return tmp_path / "vendors"


def test_what_the_loader_is_told_is_read_and_a_host_without_a_loader_says_so(probe: Any, vendors: Path, monkeypatch: Any) -> None:
    (vendors / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    (vendors / "notes.txt").write_text("libother.so")
    monkeypatch.setattr(probe.kernels, "SUM", probe.kernels.SUM.replace("libOpenCL.so.1", "libnone-such.so"))
    fact = probe.kernels.opencl()
    assert fact["named"] == {str(vendors / "nvidia.icd"): "libnvidia-opencl.so.1"}
    assert fact["libraries"] == ["/lib/libnvidia-opencl.so.1"]
    assert (fact["code"], fact["run"]["loader"], fact["run"]["devices"]) == (0, False, [])
    assert "libnone-such.so" in fact["run"]["error"]


@pytest.mark.usefixtures("vendors")
def test_a_driver_that_crashes_takes_nothing_else_along(probe: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(probe.kernels, "SUM", "import os, sys; print('x', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)")
    fact = probe.kernels.opencl()
    assert (fact["code"], fact["said"], fact["run"], fact["named"]) == (-11, "x", None, {})


@pytest.mark.usefixtures("vendors")
def test_a_session_that_hides_gpus_or_names_other_drivers_changes_nothing(probe: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(
        probe.kernels,
        "SUM",
        "import json, os; print('gpuprov-json=' + json.dumps({k: 1 for k in os.environ if 'CUDA' in k or 'OCL' in k}))",
    )
    for name in ("CUDA_VISIBLE_DEVICES", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"):
        monkeypatch.setenv(name, "/x")
    monkeypatch.delenv("CUDA_CACHE_DISABLE", raising=False)  # a probe that another test ran here sets it
    assert probe.kernels.opencl()["run"] == {}


LOADER = """
#include <string.h>
typedef unsigned u; typedef unsigned long z;
static float held[2][4096]; static void *made[2]; static int buffers, arguments[2];
int clGetPlatformIDs(u n, void **out, u *count)
{ if (count) *count = PLATFORMS; for (u i = 0; out && i < n; i++) out[i] = (void *)(z)(i + 1); return PLATFORMS ? 0 : -1001; }
static int say(const char *word, z room, char *out, z *size)
{ if (size) *size = strlen(word) + 1; if (out && room > strlen(word)) strcpy(out, word); return 0; }
int clGetPlatformInfo(void *p, u what, z room, char *out, z *size) { return say(p == (void *)1 ? VENDOR : "Mesa", room, out, size); }
int clGetDeviceIDs(void *p, z kind, u n, void **out, u *count)
{ if (count) *count = 1; if (out) *out = (void *)7; return kind == 4 ? 0 : -1; }
int clGetDeviceInfo(void *d, u what, z room, char *out, z *size) { return say("Card", room, out, size); }
void *clCreateContext(void *a, u n, void *d, void *b, void *c, int *e) { *e = 0; return (void *)1; }
void *clCreateCommandQueue(void *c, void *d, z f, int *e) { *e = 0; return (void *)1; }
void *clCreateProgramWithSource(void *c, u n, char **s, z *l, int *e) { *e = strstr(*s, "3 * one[at] + at") ? 0 : -30; return (void *)1; }
int clBuildProgram(void *p, u n, void *d, void *o, void *a, void *b) { return BUILDS; }
int clGetProgramBuildInfo(void *p, void *d, u what, z room, char *out, z *size) { return say("no such type", room, out, size); }
void *clCreateKernel(void *p, char *name, int *e) { *e = strcmp(name, "add") ? -46 : 0; return (void *)1; }
void *clCreateBuffer(void *c, z f, z size, float *from, int *e)
{ *e = 0; if (from) memcpy(held[buffers], from, size); return (void *)(z)(++buffers); }
int clSetKernelArg(void *k, u at, z size, void **value) { arguments[at] = (int)(z)*value - 1; return 0; }
int clEnqueueNDRangeKernel(void *q, void *k, u d, z *o, z *all, z *l, u n, void *w, void *e)
{ for (z i = 0; i < *all; i++) held[arguments[1]][i] = 3 * held[arguments[0]][i] + i + OFF * (i == 5); return 0; }
int clEnqueueReadBuffer(void *q, void *b, u block, z o, z size, float *to, u n, void *w, void *e)
{ memcpy(to, held[(z)b - 1], size); return 0; }
"""


def against(probe: Any, folder: Path, **kind: object) -> dict[str, Any]:
    """The answer of the kernel's program with a loader that computes on the processor."""
    source, library = folder / "loader.c", folder / "libOpenCL.so.1"
    source.write_text(LOADER)
    values: dict[str, object] = {"PLATFORMS": 2, "VENDOR": '"NVIDIA Corporation"', "BUILDS": 0, "OFF": 0, **kind}
    words = [f"-D{name}={value}" for name, value in values.items()]
    subprocess.run(["cc", "-w", "-shared", "-fPIC", *words, "-o", str(library), str(source)], check=True)
    program = probe.kernels.SUM.replace('"libOpenCL.so.1"', repr(str(library)))
    out = subprocess.run([sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True).stdout
    answer: dict[str, Any] = json.loads(out.partition("gpuprov-json=")[2])
    return answer


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
@pytest.mark.parametrize(
    ("kind", "wrong", "error"),
    [({}, 0, ""), ({"OFF": 1}, 1, ""), ({"BUILDS": -11}, 4096, "clBuildProgram: no such type")],
    ids=["right", "one-wrong", "does-not-build"],
)
def test_the_program_counts_what_is_wrong_on_nvidias_platform_alone(
    probe: Any, tmp_path: Path, kind: dict[str, object], wrong: int, error: str
) -> None:
    answer = against(probe, tmp_path, **kind)
    assert answer["platforms"] == ["NVIDIA Corporation", "Mesa"]
    assert answer["devices"] == [{"name": "Card", "sums": 4096, "wrong": wrong, "error": error}]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a compiler")
@pytest.mark.parametrize("kind", [{"PLATFORMS": 0}, {"VENDOR": '"Intel"'}])
def test_a_loader_without_nvidias_platform_has_no_device_and_that_is_no_error(probe: Any, tmp_path: Path, kind: dict[str, object]) -> None:
    answer = against(probe, tmp_path, **kind)
    assert (answer["loader"], answer["devices"], answer["error"]) == (True, [], "")
