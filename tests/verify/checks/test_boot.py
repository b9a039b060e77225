"""What the checks of boot say to which facts: a case for each outcome that each can have."""

from typing import Any

from .table import Case, Text, table, texts

SIGNED: dict[str, Any] = {"stack__driver_build": "signed"}
REQUIRED: dict[str, Any] = {"os__secure_boot": "required"}
ON: dict[str, Any] = {"secure_boot": {"firmware": "uefi", "on": True, "setup_mode": False, "lockdown": "integrity"}}
CANONICAL: dict[str, Any] = {
    "module_signature": {
        "loaded": True,
        "signer": "Canonical Ltd. Kernel Module Signing",
        "same": True,
        "taint": "PO",
        "in_keyring": True,
        "dkms": [],
    }
}
KERNELS = [{"kernel": "6.8.0-9-gcp", "built": False}, {"kernel": "6.8.0-1030-gcp", "built": True}]
CASES: list[Case] = [
    ("secure-boot", ON, SIGNED, "pass", "Secure Boot is on; lockdown integrity"),
    ("secure-boot", ON, REQUIRED, "pass", "Secure Boot is on"),
    ("secure-boot", ON, {}, "not-applicable", "modules that are built on the host"),
    ("secure-boot", {}, SIGNED, "not-applicable", "the firmware has no keys; lockdown none; the profile does not require it"),
    ("secure-boot", {}, REQUIRED, "fail", "Secure Boot is off, and the firmware has no keys"),
    ("secure-boot", ON | {"secure_boot__on": False}, SIGNED, "warn", "Secure Boot is off; lockdown integrity"),
    ("secure-boot", ON | {"secure_boot__on": False, "secure_boot__setup_mode": None}, SIGNED, "warn", "Secure Boot is off"),
    ("secure-boot", ON | {"secure_boot__on": False, "secure_boot__firmware": "bios"}, SIGNED, "not-applicable", "the firmware is a BIOS"),
    ("secure-boot", ON | {"secure_boot__on": False, "secure_boot__firmware": "bios"}, REQUIRED, "fail", "which has no Secure Boot"),
    ("secure-boot", ON | {"secure_boot__lockdown": None}, SIGNED, "unknown", "lockdown not there"),
    ("secure-boot", ON | {"secure_boot__lockdown": "none"}, SIGNED, "warn", "lockdown none"),
    ("secure-boot", {"secure_boot": {"unknown": "its variables are not mounted"}}, REQUIRED, "unknown", "not mounted"),
    ("signed-modules", CANONICAL, SIGNED, "pass", "signer Canonical Ltd. Kernel Module Signing; DKMS has none; loaded, its key is in the"),
    ("signed-modules", CANONICAL, REQUIRED, "pass", "loaded"),
    ("signed-modules", CANONICAL, {}, "not-applicable", "modules that are built on the host"),
    ("signed-modules", {}, SIGNED, "fail", "signer none; DKMS has nvidia"),
    ("signed-modules", CANONICAL | {"module_signature__dkms": ["nvidia"]}, SIGNED, "fail", "DKMS has nvidia"),
    ("signed-modules", CANONICAL | {"module_signature__signer": "h DKMS module signing key"}, SIGNED, "fail", "signer h DKMS module"),
    ("signed-modules", CANONICAL | {"module_signature__signer": None}, SIGNED, "fail", "signer none"),
    ("signed-modules", CANONICAL | {"module_signature__loaded": False}, SIGNED, "fail", "no module is loaded"),
    ("signed-modules", CANONICAL | {"module_signature__taint": "POE"}, SIGNED, "fail", "did not accept the signature"),
    ("signed-modules", CANONICAL | {"module_signature__same": False}, SIGNED, "fail", "another module is loaded"),
    ("signed-modules", CANONICAL | {"module_signature__same": None}, SIGNED, "unknown", "was not seen"),
    ("signed-modules", CANONICAL | {"module_signature__taint": None}, SIGNED, "unknown", "was not seen"),
    ("signed-modules", CANONICAL | {"module_signature__in_keyring": False}, SIGNED, "pass", "its key is in no ring of the kernel"),
    (
        "signed-modules",
        CANONICAL,
        SIGNED | {"os__name": "debian", "os__version": "12"},
        "fail",
        "the system has none: its modules are built by",
    ),
    ("signed-modules", CANONICAL | {"module_signature": {"unknown": "no modinfo"}}, SIGNED, "unknown", "no modinfo"),
]
TEXTS: list[Text] = [
    (
        "signed-modules",
        {},
        SIGNED,
        "the loaded module signed by Canonical Ltd. Kernel Module Signing, and DKMS without a part in it",
        "`gpuprov apply HOST --role nvidia_driver`",
    ),
    ("secure-boot", {}, REQUIRED, "Secure Boot is on, and the kernel is locked down", "launch it again"),
]
test_a_verdict_follows_from_the_facts = table(CASES)
test_it_says_what_was_expected_and_what_to_do = texts(TEXTS)
