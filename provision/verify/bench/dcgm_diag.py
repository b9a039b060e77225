"""What `dcgmi diag -j` prints, of DCGM 3 and 4: the result of each test on each GPU, and nothing that is not in their own form.

Source: NVIDIA/DCGM at 72fa3fe (4.6.0), `dcgmi/Diag.cpp`, `nvvs/include/NvvsJsonStrings.h` and `testing/python3/dcgm_diag_schema.json`.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from provision.verify.bench.figures import Measured, ToolMessage

RESULTS: Final = ("Fail", "Not Run", "Warn", "Skip", "Pass")
"""From the worst; version 3 writes them in capitals."""
_BY_CAPITALS: Final = {result.upper(): result for result in RESULTS}
_MOST_TESTS: Final = 200
_Text = Annotated[str, msgspec.Meta(max_length=4000)]
_Id = Annotated[int, msgspec.Meta(ge=0, le=100_000)]


class _Warning(msgspec.Struct):
    warning: _Text
    error_id: int | None = None


class _Result(msgspec.Struct):
    status: _Text
    entity_group: _Text = "GPU"
    entity_id: _Id | None = None
    gpu_id: _Text = ""  # of version 3
    warnings: _Text | list[_Warning | _Text] = ""

    @property
    def words(self) -> str:
        """What DCGM says beside the result."""
        if isinstance(self.warnings, str):
            return self.warnings
        return "; ".join(each if isinstance(each, str) else each.warning for each in self.warnings)


class _Test(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
    results: list[_Result] = []
    test_summary: _Result | None = None


class _Category(msgspec.Struct):
    category: _Text
    tests: list[_Test]


class _Diagnostic(msgspec.Struct):
    test_categories: list[_Category] = []
    runtime_error: _Text = ""
    version: _Text = ""


class _Metadata(msgspec.Struct):
    version: _Text = ""


class _Document(msgspec.Struct):
    new: _Diagnostic | None = msgspec.field(name="DCGM Diagnostic", default=None)
    old: _Diagnostic | None = msgspec.field(name="DCGM GPU Diagnostic", default=None)
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_DECODER: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(_Document)


def read(message: ToolMessage) -> Iterator[Measured]:
    """A figure for each test and GPU, without a value and with the `result` of DCGM.

    Raises:
        ValueError: it is not what DCGM prints, or contradicts itself; its words say how.
    """
    try:
        document: _Document = _DECODER.decode(message.output.encode())
    except (msgspec.MsgspecError, RecursionError) as error:
        msg = f"its answer is none of DCGM's: {str(error)[:150]}"
        raise ValueError(msg) from error
    found = document.new or document.old
    if found is None or (document.new is not None and document.old is not None):
        msg = "its answer has no diagnostic of DCGM"
        raise ValueError(msg)
    if found.runtime_error:
        msg = f"DCGM could not run it: {found.runtime_error}"
        raise ValueError(msg)
    tests = [test for category in found.test_categories for test in category.tests]
    if not 1 <= len(tests) <= _MOST_TESTS:
        msg = f"DCGM's output has no test, or too many: {len(tests)}"
        raise ValueError(msg)
    figures = [figure for test in tests for figure in _test(test, message, document.metadata.version or found.version)]
    if message.code and {figure.detail["result"] for figure in figures} <= {"Pass", "Skip"}:
        msg = f"every test passed, and yet dcgmi ended with {message.code}"
        raise ValueError(msg)
    yield from figures


def _test(test: _Test, message: ToolMessage, version: str) -> Iterator[Measured]:
    """Of one test the result of each GPU, and the summary where that is worse."""
    results = [(_status(result), result) for result in test.results]
    if test.test_summary is not None:
        summary = _status(test.test_summary), test.test_summary
        if all(RESULTS.index(summary[0]) < RESULTS.index(status) for status, _ in results):
            results.append(summary)
    if not results:
        msg = f"DCGM says of the test {test.name!a} neither a result nor a summary"
        raise ValueError(msg)
    for status, result in results:
        gpu = _gpu(result, message.gpus)
        name = test.name.lower().replace(" ", "-")
        name = name if result.entity_group == "GPU" else f"{name}.{result.entity_group.lower()[:20]}"
        yield Measured(
            "dcgm", name, gpu, "", seconds=message.seconds, detail={"result": status, "version": version[:100]}, why=result.words[:300]
        )


def _status(result: _Result) -> str:
    status = _BY_CAPITALS.get(result.status.upper())
    if status is None:
        msg = f"DCGM has no result {result.status[:40]!a}"
        raise ValueError(msg)
    return status


def _gpu(result: _Result, gpus: int) -> int:
    """The GPU of a result; the first for what is of no GPU."""
    if result.entity_group != "GPU":
        return 0
    number = result.entity_id if result.entity_id is not None else int(result.gpu_id) if result.gpu_id.isdecimal() else 0
    if number >= max(1, gpus):
        msg = f"DCGM has a GPU {number}, and there are {gpus}"
        raise ValueError(msg)
    return number
