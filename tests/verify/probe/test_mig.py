"""What the probe reads of a split GPU, with NVML in the test's hands."""

from __future__ import annotations

from typing import Any

import pynvml
import pytest


def nvml(mode: Any, names: list[str | None], most: Any = 7) -> Any:
    """NVML with one device: None is a place without a MIG device."""

    class Device:
        NVMLError, NVMLError_NotFound = pynvml.NVMLError, pynvml.NVMLError_NotFound

        @staticmethod
        def nvmlDeviceGetMigDeviceHandleByIndex(_handle: str, index: int) -> str:  # noqa: N802 - NVML's
            if index >= len(names):
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
            name = names[index]
            if name is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
            if name == "denied":
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
            return name

    def ask(name: str, handle: str) -> dict[str, Any]:
        if name == "nvmlDeviceGetName":
            return {"value": handle}
        answer = {"nvmlDeviceGetMigMode": mode, "nvmlDeviceGetMaxMigDeviceCount": most}[name]
        return {"unknown": answer} if isinstance(answer, str) else {"value": answer}

    return Device, ask


H100 = "NVIDIA H100 80GB HBM3 MIG "


@pytest.mark.parametrize(
    ("mode", "names", "most", "readings"),
    [
        ([1, 1], [f"{H100}1g.10gb", None, f"{H100}3g.40gb", f"{H100}1g.10gb"], 7, ({"value": 1}, {"value": "1g.10gb 1g.10gb 3g.40gb"})),
        ([1, 1], [], 7, ({"value": 1}, {"value": ""})),
        ([0, 1], [f"{H100}1g.10gb"], 7, ({"value": 0}, {"value": ""})),
        ("Not Supported", [], 7, ({"unknown": "Not Supported"}, {"unknown": "Not Supported"})),
        ([1, 1], [], "Unknown Error", ({"value": 1}, {"unknown": "Unknown Error"})),
        ([1, 1], ["denied"], 7, ({"value": 1}, {"unknown": "Insufficient Permissions"})),
        ([1, 1], ["NVIDIA H100"], 7, ({"value": 1}, {"unknown": "the name of MIG device 0 does not end in its slice"})),
        ([1, 1], [f"{H100}1c.3g.40gb"], 7, ({"value": 1}, {"value": "1c.3g.40gb"})),
    ],
)
def test_the_slices_are_read_one_by_one(probe: Any, mode: Any, names: Any, most: Any, readings: Any) -> None:
    device, ask = nvml(mode, names, most)
    seen = probe.mig.split(device, ask, "handle")
    assert (seen["mig"], seen["mig_slices"]) == readings
    assert seen["mig_pending"] == ({"value": mode[1]} if isinstance(mode, list) else readings[0])


def test_a_unit_that_did_not_run_left_no_report(probe: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe.mig, "MIG_REPORT", str(tmp_path / "report"))
    assert probe.mig.mig_report() == {"lines": None}
    (tmp_path / "report").write_text("0 ready\n1 in-use\n")
    assert probe.mig.mig_report() == {"lines": ["0 ready", "1 in-use"]}
