"""What `gpuprov verify` prints of each check of a component, true and false: `python -m tests.verify.shown [--write]`.

Each scene is a profile with a facts file on which all of its checks hold, and others on which they do not. `shown.txt` beside this file is
what was printed last; a test compares the two.
"""

import contextlib
import copy
import datetime as dt
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from provision.cli import main
from provision.profile import lockfile
from provision.profile.lock import build
from provision.profile.locked import environment_of
from provision.profile.model import Profile
from provision.profile.pins import EnvironmentWheels, Resolved, WheelPin, digest
from provision.verify.facts import Facts
from tests.verify import good
from tests.verify.checks import test_boot, test_kernels, test_mig, test_python, test_stack
from tests.verify.checks.table import gpu

GOLDEN = Path(__file__).with_suffix(".txt")
TODAY = dt.date(2026, 11, 21)
OPENCV: dict[str, Any] = {**test_stack.CV_FOUND, "devices": [test_stack.SEEN]}


def opencv(**changed: Any) -> dict[str, Any]:
    """An OpenCV whose one GPU computed something else."""
    return {"opencv__found": {**OPENCV, "devices": [{**test_stack.SEEN, **changed}]}}


@dataclass(frozen=True)
class Scene:
    """A profile, the checks that are shown, and the facts of a host on which they hold and of those on which they do not."""

    title: str
    profile: dict[str, Any]
    checks: Sequence[str]
    true: Facts
    false: tuple[Facts, ...]
    own: tuple[str, ...] = field(default=())


HOST: dict[str, Any] = {
    **test_boot.ON,
    **test_boot.CANONICAL,
    "opencv__found": OPENCV,
}
PERF = {"gpu__model": "h200", "gpu__count": 1, "gpu__application_clocks": "default", "verify": {"tier": "perf"}}
WRONG: dict[str, Any] = {
    "amp__speed_up": 0.9,
    "triton__right": False,
    "tensorrt__int8": 0.2,
    "transformer_engine__fp8": 0.2,
    "flash_attention__backward": 0.2,
}
SCENES = (
    Scene(
        "components of a machine with a T4, signed modules and Secure Boot",
        {
            "places": [],
            "os__secure_boot": "required",
            "stack__driver_build": "signed",
            "stack__containers": "podman",
            "stack__extras": ["cutlass", "opencl"],
            "stack__opencv": "cuda",
            "stack__python": {"requirements": "requirements.txt"},
        },
        (
            *("secure-boot", "signed-modules", "driver-on-disk", "opencv", "opencv-cuda", "python-packages"),
            *("containers-installed", "containers", "cutlass", "opencl"),
        ),
        good.facts(**HOST),
        (
            good.facts(
                **HOST
                | {
                    "secure_boot__on": False,
                    "module_signature__signer": "host DKMS module signing key",
                    "modules__installed": [{"kernel": "6.8.0-1030-aws", "built": False}],
                    "opencv__found": {**OPENCV, "cuda": False},
                    "containers__toolkit": None,
                    "container_run__program__devices": [{"sum": 2147450879}],
                    "cutlass__found__devices": [{**test_kernels.RAN, "wrong": 1}],
                    "opencl__run__devices": [],
                    "opencl__run__platforms": ["Portable Computing Language"],
                }
            ),
        ),
        test_python.LOCKED[1:],
    ),
    Scene(
        "OpenCV on the GPU: an image, a network, a video",
        {"places": [], "stack__opencv": "cuda"},
        ("opencv-cuda",),
        good.facts(**HOST),
        (
            good.facts(**HOST | opencv(sum=0)),
            good.facts(**HOST | opencv(dnn={**test_stack.NET, "fell_back": "fallback for layer c"})),
            good.facts(**HOST | opencv(decode={"left": 60.0, "right": 60.0})),
        ),
    ),
    Scene(
        "an H100 that is split with MIG",
        {"places": [], **test_mig.ASKED},
        ("mig-at-boot", "mig"),
        good.facts(**test_mig.SPLIT, mig_unit=test_mig.UNIT),
        (good.facts(**test_mig.SPLIT | gpu(mig_slices="1g.10gb 3g.40gb")),),
    ),
    Scene(
        "libraries and precisions on an H200, under load",
        {"places": [], **PERF, "stack__extras": ["triton", "tensorrt", "transformer-engine", "flash-attn"]},
        ("amp", "triton", "tensorrt", "transformer-engine", "flash-attention"),
        good.under_load(1),
        (good.under_load(1, **WRONG),),
    ),
)


def said(*words: str) -> str:
    """What the command line prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main(words)
    return "\n".join(line for line in out.getvalue().splitlines() if not line.startswith("not checked, by --only"))


def lines(folder: Path) -> Iterator[str]:
    """The output, scene after scene, and last the figures of the precisions."""
    for number, scene in enumerate(SCENES):
        profile = Profile.model_validate({**good.profile(**scene.profile).dump(), "name": f"scene-{number}"})
        path = folder / f"scene-{number}.yml"
        path.write_text(yaml.safe_dump(profile.dump()))
        (folder / "requirements.txt").write_text("einops\n")
        resolved = Resolved("requirements.txt", digest(folder / "requirements.txt"), scene.own)

        def own(_within: EnvironmentWheels, resolved: Resolved = resolved) -> Resolved:
            return resolved

        lock = build(profile, TODAY, own=own if scene.own else None)
        lockfile.path_for(path).write_text(lockfile.dump(lock))
        pins = [pin for line in environment_of(lock) if (pin := WheelPin.parse(line))] if scene.own else []
        environment = {re.sub(r"[-_.]+", "-", pin.name).lower(): pin.version for pin in pins}
        yield f"== {scene.title}"
        for word, facts, einops in (("true", scene.true, "0.8.1"), *(("false", false, "0.8.0") for false in scene.false)):
            raw = copy.deepcopy(dict(facts.raw))
            raw["extras"]["value"]["environments"]["pytorch"] |= {**environment, "einops": einops}
            document = {"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 0.4, "facts": raw}
            (folder / f"{word}.json").write_text(json.dumps(document))
            only = [part for check in scene.checks for part in ("--only", check)]
            yield said("verify", "--facts", str(folder / f"{word}.json"), "--profile", str(path), *only).strip("\n")
            yield ""
    yield "== gpuprov catalog precision"
    yield said("catalog", "precision").strip("\n")


def output() -> str:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder:
        return "\n".join(lines(Path(folder))) + "\n"


if __name__ == "__main__":
    text = output()
    if "--write" in sys.argv:
        GOLDEN.write_text(text)
    os.write(1, text.encode())
