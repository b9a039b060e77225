"""A host with an OpenCL driver for processors is not taken for one with a GPU: `python -m tests.full.opencl HOST PROFILE FOLDER`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.verify.good import GOOD

POCL = "Portable Computing Language"


def verdict(profile: str, path: Path, document: dict[str, Any]) -> dict[str, Any]:
    """What `gpuprov verify` says of OpenCL on a host with these facts."""
    path.write_text(json.dumps(document))
    words = ["gpuprov", "verify", "--facts", str(path), "--profile", profile, "--only", "opencl", "--json"]
    [report] = json.loads(subprocess.run(words, capture_output=True, text=True, check=False).stdout)["hosts"]
    finding: dict[str, Any] = next(each for each in report["findings"] if each["check"] == "opencl")
    print(f"opencl: {finding['outcome']}: {finding['observed']}")  # noqa: T201 - asked for
    return finding


def main() -> None:
    """Probe the host, and judge what it said; then the same with a GPU beside it."""
    host, profile, folder = sys.argv[1:]
    document = json.loads(subprocess.run(["gpuprov", "probe", host], capture_output=True, text=True, check=True).stdout)
    seen = document["facts"]["opencl"]["value"]
    assert (seen["run"]["loader"], seen["run"]["platforms"], seen["run"]["devices"]) == (True, [POCL], []), seen
    assert verdict(profile, Path(folder, "pocl.json"), document)["outcome"] == "unknown", "this host has no GPU"
    # A host whose GPU is there, as are NVIDIA's file and library, while only the processor's driver answers.
    document["facts"] |= {name: {"value": GOOD[name]} for name in ("gpu", "nvml", "driver")}
    seen["libraries"] = ["/lib/x86_64-linux-gnu/libnvidia-opencl.so.1"]
    said = verdict(profile, Path(folder, "beside.json"), document)
    assert (said["outcome"], said["observed"]) == ("fail", f"no GPU on NVIDIA's platform; the platforms are: {POCL}"), said


if __name__ == "__main__":
    main()
