"""The mutants of a room: mutmut's, but for those that change words alone."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import libcst as cst
from mutmut.mutation import mutators
from mutmut.mutation.file_mutation import mutate_file_contents

RESULTS: Final = "results.json"  # mutant → what came of it


@dataclass(frozen=True)
class Copy:
    """A room in its copy, the current folder.

    Attributes:
        code: the files that are changed.
        imported_from: the folder that Python imports them from.
        tests: the files and folders whose tests run.
        workers: how many mutants run at a time.
    """

    code: list[str]
    imported_from: str
    tests: list[str]
    workers: int

    def module(self, path: str) -> str:
        """The name under which Python imports a file."""
        return ".".join(Path(path).relative_to(self.imported_from).with_suffix("").parts).removesuffix(".__init__")

    def make(self) -> list[str]:
        """Write all mutants of each file into it, and return their names."""
        with multiprocessing.get_context("fork").Pool(self.workers) as pool:
            made = pool.map(_make, self.code, chunksize=1)
        return [f"{self.module(path)}.{name}" for path, names in zip(self.code, made, strict=True) for name in names]


def _make(path: str) -> list[str]:
    operators: list[Any] = mutators.mutation_operators
    operators[:] = [(kind, _OTHERS.get(operator, operator)) for kind, operator in operators if operator is not mutators.operator_string]
    file = Path(path)
    made = mutate_file_contents(path, file.read_text())
    file.write_text(made.code)
    return list(made.mutant_names)


def _is_sentence(node: Any) -> bool:
    """Whether an expression is a text with a space in it."""
    if isinstance(node, cst.ConcatenatedString):
        return _is_sentence(node.left) or _is_sentence(node.right)
    if isinstance(node, cst.FormattedString):
        return any(isinstance(part, cst.FormattedStringText) and " " in part.value for part in node.parts)
    return isinstance(node, cst.SimpleString) and " " in node.value


def _arguments(call: cst.Call) -> Iterator[cst.Call]:
    """The calls with one argument less, or None for it, but for those without a sentence."""
    sentences = sum(_is_sentence(argument.value) for argument in call.args)
    for mutant in mutators.operator_arg_removal(call):
        if sum(_is_sentence(argument.value) for argument in mutant.args) == sentences:
            yield mutant


def _assignments(node: cst.Assign | cst.AnnAssign) -> Iterator[cst.CSTNode]:
    """None for what is assigned, if that is not a sentence."""
    if not _is_sentence(node.value):
        yield from mutators.operator_assignment(node)


_OTHERS: Final[dict[Any, Any]] = {mutators.operator_arg_removal: _arguments, mutators.operator_assignment: _assignments}
