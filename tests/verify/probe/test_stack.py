"""What the probe makes of the answers of ffmpeg and nvcc."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from .host import Nvml, tool

# An nvcc that lists sm_75 and sm_90 and makes a program that answers; STOP names the step that fails, JOURNAL is what it was asked for.
NVCC = """
echo "$(whoami) $PWD $*" >> "$JOURNAL"
case "$*" in
*--list-gpu-code) [ "$STOP" = list ] && { echo no such option >&2; exit 1; }; echo sm_75; echo sm_90; exit;;
*-E*) [ "$STOP" = host-compiler ] && { echo "#error gcc is too new" >&2; exit 2; }; exit 0;;
esac
[ "$STOP" = compile ] && { echo ptxas died >&2; exit 4; }
for last; do folder=${last%/*}; done
ls -ld "$folder" >> "$JOURNAL"
printf '#!/bin/sh\\n[ "$STOP" = run ] && exit 9\\necho hello\\necho "gpuprov-json=$ANSWER"\\n' > "$folder/add"
chmod 755 "$folder/add"
"""
ANSWER = {"error": "", "devices": [{"capability": "sm_90", "code": "sm_90", "sum": 2147450880, "error": ""}]}


@pytest.fixture
def journal(probe: Any, bin_folder: Path, tmp_path: Path, monkeypatch: Any) -> Path:
    """A host with one H100 and an nvcc that writes down what it was asked for."""
    for name in ("ls", "chmod", "whoami"):
        (bin_folder / name).symlink_to(str(shutil.which(name, path="/usr/bin:/bin")))
    tool(bin_folder, "nvcc", NVCC)
    monkeypatch.setenv("JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setenv("ANSWER", json.dumps(ANSWER))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    signs = {"pci": ["0000:00:06.0"], "nodes": ["/dev/nvidia0"], "module": True, "modes": {"/dev/nvidia0": 0o660}}
    monkeypatch.setattr(probe.stack, "present", lambda: signs)
    return tmp_path / "journal"


def test_a_frame_is_encoded_only_where_a_gpu_is_and_is_large_enough(probe: Any, bin_folder: Path, monkeypatch: Any) -> None:
    tool(bin_folder, "ffmpeg", 'case "$*" in *-encoders*) echo " V....D h264_nvenc  NVIDIA";; *) echo "$*" >&2; exit 3;; esac')
    assert probe.stack.encoders() == {"nvenc": ["h264_nvenc"], "encode": None}
    monkeypatch.setattr(probe.stack.glob, "glob", lambda _: ["/dev/nvidia0"])
    encode = probe.stack.encoders()["encode"]
    assert encode["code"] == 3
    assert "s=256x256" in encode["said"]
    assert encode["said"].endswith("-f null -")


def test_a_kernel_is_compiled_for_the_architecture_of_the_gpu_alone_and_its_answer_is_the_fact(probe: Any, journal: Path) -> None:
    fact = probe.stack.nvcc_runs()
    assert (fact["step"], fact["code"], fact["gpus"], fact["built"]) == ("run", 0, ["sm_90"], ["sm_90"])
    assert fact["devices"] == ANSWER["devices"]
    assert "-gencode arch=compute_90,code=sm_90" in journal.read_text()
    assert "_75" not in journal.read_text()
    assert all("gpuprov-" in line for line in journal.read_text().splitlines()), "nvcc looks for headers in the folder that it stands in"
    assert "drwx------ " in journal.read_text(), "what is compiled there is run: nobody else may write there"
    assert not list(journal.parent.glob("gpuprov-*"))


@pytest.mark.parametrize(
    "stop",
    [("list", 1, "no such option"), ("host-compiler", 2, "#error gcc is too new"), ("compile", 4, "ptxas died"), ("run", 9, "")],
)
def test_the_step_that_fails_is_the_last_one(probe: Any, journal: Path, monkeypatch: Any, stop: tuple[str, int, str]) -> None:
    monkeypatch.setenv("STOP", stop[0])
    fact = probe.stack.nvcc_runs()
    assert (fact["step"], fact["code"], fact["said"], fact["devices"]) == (*stop, [])
    assert not list(journal.parent.glob("gpuprov-*"))


def test_an_architecture_that_nvcc_does_not_list_is_not_compiled(probe: Any, journal: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(nvmlDeviceGetCudaComputeCapability=(7, 0)))
    fact = probe.stack.nvcc_runs()
    assert (fact["step"], fact["gpus"], fact["lists"], fact["built"]) == ("list", ["sm_70"], ["sm_75", "sm_90"], [])
    assert len(journal.read_text().splitlines()) == 1


def test_without_a_gpu_the_kernel_is_compiled_and_not_run(probe: Any, journal: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(probe.stack, "present", lambda: {"pci": [], "nodes": [], "module": False, "modes": {}})
    monkeypatch.setenv("STOP", "run")
    fact = probe.stack.nvcc_runs()
    assert (fact["step"], fact["code"], fact["gpus"], fact["built"]) == ("compile", 0, [], ["sm_75"])
    assert "-gencode arch=compute_75,code=sm_75" in journal.read_text()


def test_a_gpu_that_nvml_does_not_list_is_unknown_and_not_taken_for_none(probe: Any, journal: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(nvmlDeviceGetCount=0))
    with pytest.raises(probe.run.Unknown, match="NVML lists no device"):
        probe.stack.nvcc_runs()
    assert not journal.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can step down")
def test_root_compiles_and_runs_as_nobody_where_nobody_may_use_the_gpu(
    probe: Any, journal: Path, bin_folder: Path, monkeypatch: Any
) -> None:
    (bin_folder / "setpriv").symlink_to(str(shutil.which("setpriv", path="/usr/bin:/bin")))
    opened = {**probe.stack.present(), "modes": {"/dev/nvidia0": 0o666}}
    for folder in journal.parents:  # pytest's folders are its user's alone
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o711)
    journal.touch()
    journal.chmod(0o666)
    assert probe.stack.nvcc_runs()["as_root"]
    monkeypatch.setattr(probe.stack, "present", lambda: opened)
    fact = probe.stack.nvcc_runs()
    assert (fact["as_root"], fact["code"], fact["devices"]) == (False, 0, ANSWER["devices"])
    users = [line.split()[0] for line in journal.read_text().splitlines() if "nvcc" not in line]
    assert {"root", "nobody"} <= set(users)


TORCH = """import warnings
__version__ = "2.13.0+cu130"
class version: cuda = "13.0"
class _C:
    _cuda_getArchFlags = staticmethod(lambda: "sm_75 sm_80")
class cuda:
    @staticmethod
    def is_available():
        warnings.warn("CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted")
        return False
class backends:
    class cudnn:
        version = staticmethod(lambda: 91900)
"""


def test_why_a_framework_sees_no_gpu_is_kept_though_it_goes_on_without(probe: Any, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(TORCH)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    found = probe.stack.run_in(str(python), probe.stack.TORCH, 30)["found"]
    assert (found["devices"], found["said"]) == ([], "Error 804: forward compatibility was attempted")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026 E cuda_driver.cc:152] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no device\n", "CUDA_ERROR_NO_DEVICE: no device"),
        ("W gpu_device.cc:2344] Cannot dlopen some GPU libraries. Please\nSkipping", "Cannot dlopen some GPU libraries. Please"),
        ("x: UserWarning: CUDA initialization: CUDA unknown error - this may\n", "CUDA initialization: CUDA unknown error - this may"),
        ("Unable to initialize backend 'cuda': no GPU", "Unable to initialize backend 'cuda': no GPU"),
        ("FutureWarning: something else\n", ""),
        ("", ""),
    ],
)
def test_of_what_a_framework_writes_only_what_it_says_of_cuda_is_kept(probe: Any, text: str, said: str) -> None:
    assert probe.stack.complaint(text) == said


def test_pytorch_is_looked_for_where_the_profile_says_it_lives(probe: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(probe.stack, "VENVS", str(tmp_path / "venvs"))
    own, image = tmp_path / "venvs" / "jax", tmp_path / "image"
    for home in (own, image):
        (home / "bin").mkdir(parents=True)
        (home / "lib/python3.12/site-packages/torch-2.9.1.dist-info").mkdir(parents=True)
        (home / "bin/python").write_text(f'#!/bin/sh\necho \'gpuprov-json={{"version": "{home.name}"}}\'\n')
        (home / "bin/python").chmod(0o755)
    assert probe.stack.in_venv("pytorch", "", 5) == {"found": None, "home": str(tmp_path / "venvs/pytorch")}
    monkeypatch.setitem(probe.run.REQUEST, "prefix", f"{image}/")
    assert probe.stack.in_venv("pytorch", "", 5) == {"found": {"version": "image"}, "home": str(image)}
    assert probe.stack.in_venv("jax", "", 5) == {"found": {"version": "jax"}, "home": str(own)}
    assert probe.stack.extras()["environments"] == {"jax": {"torch": "2.9.1"}, "pytorch": {"torch": "2.9.1"}}
