"""Whether a GPU is well: NVML's readings of each, and the driver's complaints in the kernel log."""

from typing import Annotated, Literal

from pydantic import Field

from provision.verify.facts.base import NOT_READ, Count, Fact, FactPart, Reading


class HealthReadings(FactPart):
    """Memory errors of one GPU, what the driver did about them, and what holds its clocks down."""

    ecc: Reading = NOT_READ
    ecc_pending: Reading = NOT_READ
    uncorrected: Reading = NOT_READ
    uncorrected_ever: Reading = NOT_READ
    sram_threshold: Reading = NOT_READ
    retired_single: Reading = NOT_READ
    retired_double: Reading = NOT_READ
    retired_pending: Reading = NOT_READ
    remapped_correctable: Reading = NOT_READ
    remapped_uncorrectable: Reading = NOT_READ
    remapped_pending: Reading = NOT_READ
    remapped_failure: Reading = NOT_READ
    unrepairable: Reading = NOT_READ
    recovery_action: Reading = NOT_READ
    inforom: Reading = NOT_READ
    event_reasons: Reading = NOT_READ
    hw_thermal: Reading = NOT_READ
    hw_power_brake: Reading = NOT_READ
    power_limit_mw: Reading = NOT_READ  # in force, by whomever it was lowered
    power_default_mw: Reading = NOT_READ
    gsp: Reading = NOT_READ


class GspFacts(Fact):
    """The kernel modules that are loaded, and NVreg_EnableGpuFirmware at their next load; None where neither is known."""

    name = "gsp"
    modules: Literal["open", "proprietary"] | None
    on_disk: Annotated[str, Field(pattern=r"^[0-9]+$")] | None


class XidEvent(FactPart):
    """A driver's complaint about one GPU or NVSwitch, and how often it came; `pci` is empty where the line does not say.

    `nonfatal` is what the line says of itself: one code of NVLink 5 is for faults and for what was corrected.
    """

    pci: str
    code: Count
    nonfatal: bool = False
    count: Annotated[int, Field(ge=1)]
    last: str


class StartCause(FactPart):
    """Why the driver did not start a card, and the line of the kernel log that says so."""

    kind: str
    last: str


class XidsFacts(Fact):
    """The XIDs of the kernel log of this boot, and the SXIDs of NVSwitches; `complete` is whether the log still has its beginning.

    `causes` is why a card was not started, the likeliest first.
    """

    name = "xids"
    source: Annotated[str, Field(min_length=1)]
    complete: bool
    events: tuple[XidEvent, ...]
    switches: tuple[XidEvent, ...] = ()
    causes: tuple[StartCause, ...] = ()
