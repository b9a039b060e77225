"""`gpuprov explain`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.conftest import Call


def test_explain_tells_every_choice_and_what_was_passed_over(call: Call) -> None:
    code, out, _ = call("explain", "v100-train")
    assert code == 0
    assert "PyTorch 2.11.0 has kernels for sm_75" in out
    assert "the open kernel modules need a GSP" in out
    _, out, _ = call("explain", "t4-train", "cuda")
    assert "not 13.4: CUDA 13.4 came with driver" in out
    assert "the newest in the catalog of 2026-11-21" in call("explain", "t4-train", "cudnn")[1]
    code, _, err = call("explain", "t4-train", "cudda")
    assert (code, "did you mean cuda" in err) == (2, True)


def test_it_tells_what_was_asked_for_from_defaults_and_choices(call: Call) -> None:
    """`t4-train` says nothing of TensorFlow and packages, leaves CUDA open, and names the counters."""
    told = {choice["variable"]: choice for choice in json.loads(call("explain", "t4-train", "--json")[1])["choices"]}
    kinds = {name: told[name]["kind"] for name in ("gpu", "counters", "ncu", "packages", "tensorflow", "jax", "cuda", "flavour")}
    assert kinds == {
        "gpu": "asked",
        "counters": "asked",
        "ncu": "asked",
        "packages": "default",
        "tensorflow": "default",
        "jax": "default",
        "cuda": "chosen",
        "flavour": "chosen",
    }
    assert told["packages"]["because"] == "the default of sources.packages"
    _, out, _ = call("explain", "t4-train", "tensorflow")
    assert "asked for" not in out


def test_what_a_profile_leaves_out_is_not_given_a_version(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "t4-train.yml"
    path.write_text(re.sub(r"cudnn: auto\b.*", "cudnn: none", call("profile", "show", "t4-train")[1]))
    assert call("explain", str(path), "cudnn")[:2] == (0, "cuDNN  none\n         asked for in stack.cudnn\n")
