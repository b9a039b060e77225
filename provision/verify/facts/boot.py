"""Secure Boot as firmware and kernel tell it, and the signature of the driver's module."""

from typing import Literal

from provision.verify.facts.base import Fact


class SecureBootFacts(Fact):
    """Whether this boot was checked; `setup_mode` is true where the firmware has no keys, and None where it does not say.

    Attributes:
        lockdown: how far the kernel keeps root out; None where it has no such state.
    """

    name = "secure_boot"
    firmware: Literal["uefi", "bios"]
    on: bool
    setup_mode: bool | None
    lockdown: str | None

    @property
    def words(self) -> str:
        """What was observed, as part of a sentence."""
        if self.firmware == "bios":
            return "the firmware is a BIOS, which has no Secure Boot"
        keys = ", and the firmware has no keys" if self.setup_mode else ""
        return f"Secure Boot is {'on' if self.on else 'off'}{keys}; lockdown {self.lockdown or 'not there'}"


class ModuleSignatureFacts(Fact):
    """The signature of the driver's module.

    Attributes:
        signer: of the module on disk; None where it carries no signature.
        same: whether the module on disk is the loaded one; None where that could not be compared.
        taint: letters that the loaded module gave the kernel, E for a signature that did not hold; None where none is loaded.
        in_keyring: whether the kernel has the signer's key; None where its keys could not be read.
        dkms: what DKMS has of the driver.
    """

    name = "module_signature"
    loaded: bool
    signer: str | None
    same: bool | None
    taint: str | None
    in_keyring: bool | None
    dkms: tuple[str, ...]
