"""What the probe makes of apt's configuration and of variables."""

from pathlib import Path
from typing import Any

import pytest

from .host import tool


def test_apts_own_word_on_unattended_upgrades(probe: Any, bin_folder: Path) -> None:
    said = 'APT::Periodic::Unattended-Upgrade "1";\n'
    said += 'Unattended-Upgrade::Package-Blacklist "";\nUnattended-Upgrade::Package-Blacklist:: "nvidia-";'
    tool(bin_folder, "apt-config", f"echo '{said}'")
    assert probe.surroundings.upgrades()["unattended"] is False  # switched on, and the program is not installed
    tool(bin_folder, "unattended-upgrade", "exit 0")
    found = probe.surroundings.upgrades()
    assert (found["unattended"], found["excluded"]) == (True, ["nvidia-"])


def test_a_package_that_was_removed_and_not_purged_is_none_of_the_driver(probe: Any, bin_folder: Path) -> None:
    """As on a host that went from 525 over 535 to 545 (`dpkg -l` has it as rc): what is not there cannot be held, nor upgraded."""
    rows = "libnvidia-compute-525-server config-files\nlibnvidia-compute-535 config-files\nlibnvidia-compute-545 installed\n"
    rows += "libnvidia-compute-545 installed\nnvidia-384 not-installed\nnvidia-dkms-545 half-configured\n"
    tool(bin_folder, "dpkg-query", f"echo '{rows}'")
    tool(bin_folder, "apt-config", "exit 0")
    assert probe.surroundings.upgrades()["packages"] == ["libnvidia-compute-545", "nvidia-dkms-545"]


def test_only_variables_that_matter_leave_the_host(probe: Any) -> None:
    lines = ["SECRET=x", "CUDA_VISIBLE_DEVICES=0", 'LD_PRELOAD="/a.so"', "CUDA_VISIBLE_DEVICES=", "no assignment"]
    assert probe.surroundings.relevant(lines) == {"CUDA_VISIBLE_DEVICES": "", "LD_PRELOAD": "/a.so"}


def test_without_systemd_and_bash_the_files_are_read_instead(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the files sets one variable, and so does systemd's own."""
    root = tmp_path / "root"
    texts = {
        "etc/environment": "# LD_PRELOAD=/no.so\nexport CUDA_VISIBLE_DEVICES=1\n",
        "etc/environment.d/50-x.conf": "XLA_FLAGS=--x\n",
        "etc/security/pam_env.conf": '#LD_PRELOAD DEFAULT=no\nNVIDIA_TF32_OVERRIDE  DEFAULT=1 OVERRIDE="0"\n',
        "etc/profile.d/cuda.sh": "# CUDA_PROFILE=1\nif true; then export CUDA_LAUNCH_BLOCKING='1'; fi\n",
        "usr/lib/systemd/system.conf": "[Manager]\n#DefaultEnvironment=NO=1\n",
        "usr/lib/systemd/system.conf.d/60-x.conf": "[Manager]\nDefaultEnvironment=LD_PRELOAD=/replaced.so\n",
        "etc/systemd/system.conf.d/50-x.conf": "[Manager]\nDefaultEnvironment=XLA_FLAGS=--no\n",
        "etc/systemd/system.conf.d/60-x.conf": (
            '[Manager]\nDefaultEnvironment=\nDefaultEnvironment="LD_PRELOAD=/a b.so" PATH=/usr/local/cuda/bin:/usr/bin\n'
        ),
    }
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(probe.surroundings, "service_environment", lambda: probe.sessions.systemd_environment(str(root)))
    monkeypatch.setattr(probe.surroundings, "login_environment", lambda: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = probe.surroundings.variables(str(root))
    assert seen["system"] == {"CUDA_VISIBLE_DEVICES": "1"}
    assert {Path(path).name: values for path, values in seen["files"].items()} == {
        "50-x.conf": {"XLA_FLAGS": "--x"},
        "pam_env.conf": {"NVIDIA_TF32_OVERRIDE": "0"},
        "cuda.sh": {"CUDA_LAUNCH_BLOCKING": "1"},
    }
    assert (seen["service"], seen["login"], seen["by_files"]) == ({"LD_PRELOAD": "/a b.so"}, {}, ["login"])
    assert probe.sessions.search_path(probe.sessions.systemd_environment(str(root))) == "/usr/local/cuda/bin:/usr/bin"
    assert probe.sessions.systemd_environment(str(tmp_path)) is None


def test_folders_of_libraries_are_looked_into_whatever_they_are_called(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compat, cudnn, loader = (tmp_path / name for name in ("compat", "lib", "loader"))
    for folder in (compat, cudnn, loader):
        folder.mkdir()
    for path in (compat / "libcuda.so.550.54.15", cudnn / "libcudnn.so.8.0.3", cudnn / "libpng.so.16", loader / "libnccl.so.2"):
        path.touch()
    (compat / "libcuda.so.1").symlink_to("libcuda.so.550.54.15")
    (cudnn / "libcudnn.so.8").symlink_to("libcudnn.so.8.0.3")
    (tmp_path / "link").symlink_to(loader)
    monkeypatch.setattr(
        probe.surroundings, "loader_cache", lambda: ["1 libs found", f"\tlibnccl.so.2 (libc6,x86-64) => {loader}/libnccl.so.2"]
    )
    found = probe.surroundings.libraries([f"{compat}:{cudnn}", f"{tmp_path}/link::/no/such", ""])
    assert found == {
        str(compat): {"place": str(compat), "own": False, "files": ["libcuda.so.550.54.15"]},
        str(cudnn): {"place": str(cudnn), "own": False, "files": ["libcudnn.so.8.0.3"]},
        str(tmp_path / "link"): {"place": str(loader), "own": True, "files": ["libnccl.so.2"]},
        "/no/such": {"place": "/no/such", "own": False, "files": []},
    }


def test_a_file_that_may_not_be_read_is_named(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(path)

    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/environment").write_text("")
    monkeypatch.setattr(probe.surroundings, "read", refuse)
    assert str(tmp_path / "etc/environment") in probe.surroundings.variables(str(tmp_path))["unread"]
