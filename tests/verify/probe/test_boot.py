"""What the probe reads of Secure Boot from the firmware's variables, and of the module's signature from the kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .host import tool

OWN = "8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.fixture
def boot(probe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("EFI", "SECURITY", "MODULE"):
        monkeypatch.setattr(probe.boot, name, str(tmp_path / name) + ("/" if name == "MODULE" else ""))
    monkeypatch.setattr(probe.boot, "DKMS", str(tmp_path / "dkms/nvidia*"))
    monkeypatch.setattr(probe.boot, "need_gpu", lambda: None)
    return probe.boot


def firmware(folder: Path, **variables: bytes) -> None:
    (folder / "EFI/efivars").mkdir(parents=True)
    (folder / "EFI/efivars/Boot0000-x").write_bytes(b"x")
    for name, content in variables.items():
        (folder / f"EFI/efivars/{name}-{OWN}").write_bytes(content)


def test_a_host_without_efi_has_no_secure_boot(boot: Any) -> None:
    assert boot.secure_boot() == {"firmware": "bios", "on": False, "setup_mode": None, "lockdown": None}


@pytest.mark.parametrize(
    ("variables", "on", "setup"),
    [
        ({"SecureBoot": b"\x06\0\0\0\x01", "SetupMode": b"\x06\0\0\0\0"}, True, False),
        ({"SecureBoot": b"\x06\0\0\0\0", "SetupMode": b"\x06\0\0\0\x01"}, False, True),
        ({}, False, None),
    ],
)
def test_the_firmware_s_variables_say_whether_it_is_on(
    boot: Any, tmp_path: Path, variables: dict[str, bytes], setup: Any, *, on: bool
) -> None:
    firmware(tmp_path, **variables)
    (tmp_path / "SECURITY").write_text("none [integrity] confidentiality\n")
    assert boot.secure_boot() == {"firmware": "uefi", "on": on, "setup_mode": setup, "lockdown": "integrity"}


def test_what_cannot_be_read_is_unknown(probe: Any, boot: Any, tmp_path: Path) -> None:
    (tmp_path / "EFI").mkdir()
    with pytest.raises(probe.run.Unknown, match="not mounted"):
        boot.secure_boot()
    firmware(tmp_path, SecureBoot=b"\x01")
    with pytest.raises(probe.run.Unknown, match="SecureBoot has 1 bytes"):
        boot.secure_boot()


def test_the_signer_is_the_module_s_own_and_the_loaded_module_is_compared_with_it(
    probe: Any, boot: Any, tmp_path: Path, bin_folder: Path
) -> None:
    with pytest.raises(probe.run.Unknown, match="no modinfo"):
        boot.module_signature()
    tool(bin_folder, "modinfo", 'case $2 in signer) echo "Canonical Ltd. Kernel Module Signing";; srcversion) echo ABC;; esac')
    empty: dict[str, Any] = {"loaded": False, "same": None, "taint": None, "dkms": []}
    assert boot.module_signature().items() >= {**empty, "signer": "Canonical Ltd. Kernel Module Signing"}.items()
    (tmp_path / "MODULE").mkdir()
    (tmp_path / "MODULE/srcversion").write_text("ABC\n")
    (tmp_path / "MODULE/taint").write_text("POE\n")
    (tmp_path / "dkms/nvidia").mkdir(parents=True)
    assert boot.module_signature().items() >= {"loaded": True, "same": True, "taint": "POE", "dkms": ["nvidia"]}.items()
    (tmp_path / "MODULE/srcversion").write_text("DEF\n")
    assert boot.module_signature()["same"] is False
    tool(bin_folder, "modinfo", "exit 1")
    answer = boot.module_signature()
    assert (answer["signer"], answer["same"]) == (None, None)
