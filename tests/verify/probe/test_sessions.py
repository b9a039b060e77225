"""What the probe makes of the PATH of a session."""

from pathlib import Path
from typing import Any

from .host import tool


def test_of_several_programs_of_one_name_each_is_asked_for_its_version_in_the_order_of_the_path(probe: Any, tmp_path: Path) -> None:
    """The words are those of Ubuntu's nvcc 11.5, of the toolkit's own, and of nsys."""
    system, broken, linked = (tmp_path / name for name in ("system", "broken", "cuda-12.8/bin"))
    for folder in (system, broken, linked):
        folder.mkdir(parents=True)
    (tmp_path / "cuda").symlink_to("cuda-12.8")
    tool(system, "nvcc", "echo 'Cuda compilation tools, release 11.5, V11.5.119'")
    tool(broken, "nvcc", "exit 127")
    tool(linked, "nvcc", "echo 'Cuda compilation tools, release 12.8, V12.8.93'")
    tool(linked, "nsys", "echo 'NVIDIA Nsight Systems version 2025.1.3.140-251335620677v0'")
    path = f"{system}:relative:{tmp_path}/cuda/bin:{linked}:{broken}:/nowhere"
    assert probe.sessions.tools(path, str(tmp_path / "cuda")) == {
        "nvcc": [
            {"path": f"{system}/nvcc", "own": False, "version": "11.5"},
            {"path": f"{tmp_path}/cuda/bin/nvcc", "own": True, "version": "12.8"},
            {"path": f"{broken}/nvcc", "own": False, "version": None},
        ]
    }
    tool(system, "nsys", "echo 'NVIDIA Nsight Systems version 2022.4.2.1-df9881f'")
    assert [each["version"] for each in probe.sessions.tools(path)["nsys"]] == ["2022.4.2.1", "2025.1.3.140"]
    assert probe.sessions.tools(None) == probe.sessions.tools(str(system)) == {}
