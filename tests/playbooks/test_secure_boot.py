"""Secure Boot where modules are built: DKMS's key and its certificate are real ones, and the kernel has it or not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import Host

MOK = {"ubuntu 24.04": ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")}
MOK["rocky 9"] = MOK["debian 12"] = ("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# As Linux writes it, after another key: crypto/asymmetric_keys/x509_public_key.c of the kernel.
KEYS = """
0a1f2c3d I------     1 perm 1f030000     0     0 asymmetri Another Signing: 61482aa2830d0ab2ad5af10b7250da9033ddcef0: X509.rsa 33ddcef0 []
1b2c3d4e I------     1 perm 1f030000     0     0 asymmetri host Secure Boot Module Signature key: {}: X509.rsa {} []
"""


@pytest.fixture
def locked(host: Host, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A host with Secure Boot, whose kernel is locked down by it."""
    module = host.load("preflight")
    monkeypatch.setattr(os.path, "exists", lambda path, real=os.path.exists: real(host.below(path)))
    host.write(EFI, b"\x06\0\0\0\x01")
    host.write("/sys/kernel/security/lockdown", b"none [integrity] confidentiality")

    def on(system: str) -> Any:
        monkeypatch.setattr(module, "system", lambda: system)
        return module

    return on


def a_key(host: Host, key: str, certificate: str, *more: str) -> str:
    """A pair as DKMS makes it; the identifier by which the kernel lists it."""
    for path in (key, certificate):
        host.write(path, b"")
    made = ["openssl", "req", "-new", "-x509", "-nodes", "-subj", "/CN=x", "-newkey", "rsa:2048", "-keyout", host.below(key), *more]
    subprocess.run([*made, "-outform", "DER", "-out", host.below(certificate)], check=True, capture_output=True)
    shown = ["openssl", "x509", "-inform", "DER", "-in", host.below(certificate), "-noout", "-ext", "subjectKeyIdentifier"]
    listed = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    return listed.split()[-1].replace(":", "").lower()


@pytest.mark.parametrize("system", MOK)
def test_secure_boot_with_an_enrolled_key_by_which_dkms_signs_is_no_reason(locked: Any, host: Host, system: str) -> None:
    module = locked(system)
    identifier = a_key(host, *MOK[system])
    host.write("/proc/keys", KEYS.format("ab" * 20, "ab" * 4).encode())
    import_it = f"`sudo mokutil --import {MOK[system][1]}`, reboot, choose Enroll MOK on the machine's console"
    assert f"Secure Boot is on, and the key by which DKMS signs modules is not enrolled: {import_it}" in module.signed_only()
    host.write("/proc/keys", KEYS.format(identifier, identifier[-8:]).encode())
    assert module.signed_only() == ""
    Path(host.below(MOK[system][0])).unlink()  # then DKMS makes a new pair, which nobody has enrolled
    assert module.signed_only().startswith("Secure Boot is on, and there is no key by which DKMS could sign modules: `sudo ")
    host.write(EFI, b"\x06\0\0\0\0")  # without it the kernel reads no key of the owner's
    assert "(lockdown=integrity), and knows no key of this host's" in module.signed_only()


@pytest.mark.parametrize("system", MOK)
def test_secure_boot_without_a_key_says_how_to_make_the_one_that_dkms_takes(locked: Any, system: str) -> None:
    said = locked(system).signed_only()
    key, certificate = MOK[system]
    made = "update-secureboot-policy --new-key" if system.startswith("ubuntu") else f"-keyout {key} -outform DER -out {certificate}"
    assert f"{made} && sudo mokutil --import {certificate}`, reboot" in said


def test_a_key_that_dkms_is_configured_to_take_is_looked_at(locked: Any, host: Host) -> None:
    module = locked("debian 12")
    host.write("/etc/dkms/framework.conf", b'# mok_signing_key=/no\nmok_signing_key="/k/a.key"\nmok_certificate="/k/a.der"\n')
    host.write("/etc/dkms/framework.conf.d/site.conf", b"mok_certificate=/k/b.der\n")
    assert module.key_pair() == ("/k/a.key", "/k/b.der")
    identifier = a_key(host, "/k/a.key", "/k/b.der")
    host.write("/proc/keys", KEYS.format(identifier, identifier[-8:]).encode())
    assert module.signed_only() == ""
