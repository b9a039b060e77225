"""`gpuprov explain`."""

from __future__ import annotations

from tests.cli.conftest import Call


def test_explain_tells_every_choice_and_what_was_passed_over(call: Call) -> None:
    code, out, _ = call("explain", "v100-train")
    assert code == 0
    assert "PyTorch 2.11.0 has kernels for sm_75" in out
    assert "the open kernel modules need a GSP" in out
    _, out, _ = call("explain", "t4-train", "cuda")
    assert "not 13.4: CUDA 13.4 came with driver" in out
    code, _, err = call("explain", "t4-train", "cudda")
    assert (code, "did you mean cuda" in err) == (2, True)
