"""What programs of others say of a host, as figures. One that is not installed, or that says nothing we understand, says so itself."""

from collections.abc import Sequence
from typing import Final

from provision.verify.bench import dcgm_diag, nccl_tests
from provision.verify.bench.figures import Measured, ToolMessage

TOOLS: Final = {"dcgm": "dcgmi", "nccl": "all_reduce_perf"}
"""Recipe → the program that it runs."""


def figures_of(message: ToolMessage) -> Sequence[Measured]:
    """The figures of a program: at least one."""
    program = TOOLS.get(message.tool, message.tool)

    def one(why: str, **detail: bool | float | str | None) -> list[Measured]:
        return [Measured(message.tool, "run", 0, "", seconds=message.seconds, detail=detail, why=why[:300])]

    if not message.path:
        return one(f"{program} is not installed on this host", absent=True)
    if message.tool == "nccl" and message.gpus < 2:  # noqa: PLR2004 - a sum has two parts
        return one("there is only one GPU", absent=True)
    if message.late:
        return one(f"{program} did not end in time")
    if message.code is None:
        return one(f"{program} could not be started: {message.error or 'no reason told'}")
    if message.cut:
        return one(f"{program} printed more than can be its answer")
    try:
        return list(dcgm_diag.read(message)) if message.tool == "dcgm" else [nccl_tests.read(message)]
    except ValueError as error:
        said = f" ({message.error})" if message.error else ""
        return one(f"{program} ended with {message.code}, and {error}{said}")
