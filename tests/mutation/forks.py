"""mutmut with one collection for all mutants, run in the copy of a room: `python forks.py WORKERS PREFIX`.

mutmut starts pytest anew for each mutant, which costs ten times what the tests cost. Here pytest collects once, and each mutant runs its
tests in a fork of that session, the quick ones first. A room whose code is called while it is imported has no such session:
each of its mutants imports that code anew.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from importlib.abc import MetaPathFinder
from typing import Any, Final

import libcst as cst
import pytest
from mutmut.__main__ import cli
from mutmut.configuration import ForkServerWarmup, config
from mutmut.mutation import mutators
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.utils import format_utils
from mutmut.utils.file_utils import change_cwd
from mutmut.workers import isolation

# No assertion is explained and no report is shown: a mutant only has to fail.
_ARGUMENTS: Final = ("--rootdir=.", "--tb=native", "--assert=plain", "--capture=sys", "--no-header", "--no-summary", "-qq")


class Server(isolation.ForkServerRunner):
    """Forks for each mutant from within pytest's session."""

    def _forkserver_main(self, work_fd: int, result_fd: int) -> None:
        serve = super()._forkserver_main
        if config().forkserver_warmup != ForkServerWarmup.COLLECT:
            with change_cwd("mutants"):
                _import_all_but_the_code()
            gc.freeze()
            serve(work_fd, result_fd)
            return

        class Held:
            @pytest.hookimpl(tryfirst=True)
            def pytest_runtestloop(self, session: pytest.Session) -> bool:
                Runner.session = session
                gc.freeze()
                serve(work_fd, result_fd)
                return True

        with change_cwd("mutants"):
            pytest.main([*_ARGUMENTS, *config().pytest_add_cli_args, *config().pytest_add_cli_args_test_selection], plugins=[Held()])

    def run_clean_tests(self, tests: Iterable[str]) -> int:  # noqa: ARG002 - mutmut's interface
        """They are run in a fork, as the mutants are: see `startup`."""
        return 0

    def startup(self) -> None:
        """Run all tests once as if for a mutant that changes nothing: a fork that fails by itself would count every mutant as killed."""
        super().startup()
        seconds = sum(state().duration_by_test.values())
        self.submit("nothing.x_nothing__mutmut_0", list(state().duration_by_test), int((seconds + 1) * 30), seconds)
        if self.wait_for_result().exit_code:
            sys.exit("the tests fail in a fork without any mutant")


class Runner(PytestRunner):
    """Runs the tests of a mutant with the items of the held session."""

    session: pytest.Session | None = None
    _outputs: tuple[Any, ...] = ()

    def warm_up(self) -> None:
        """Collection was the warming up. The output is kept, because mutmut drops it, and a dropped file is a warning, so an error."""
        self._outputs = sys.stdout, sys.stderr

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        """As mutmut does, but that nothing is collected."""
        if self.session is None:
            return int(super().run_tests(mutant_name=mutant_name, tests=tests))
        self._outputs += sys.stdout, sys.stderr  # likewise: pytest's capture drops them
        known = {item.nodeid: item for item in self.session.items}
        items = [known[name] for name in sorted(tests, key=lambda name: state().duration_by_test[name])]
        with tempfile.TemporaryDirectory(prefix="gpuprov-mutant-") as folder:
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            return self._failed(self.session, items)

    def execute_pytest(self, params: list[str], **kwargs: Any) -> int:
        """Without rewriting: what is imported before pytest begins cannot be rewritten, and pytest warns of it."""
        return int(super().execute_pytest(["--assert=plain", *params], **kwargs))

    @staticmethod
    def _failed(session: pytest.Session, items: list[Any]) -> int:
        for item, following in zip(items, [*items[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                print(f"{item.nodeid} fails", file=sys.stderr)
                session.config.hook.pytest_sessionfinish(session=session, exitstatus=1)
                return 1
        return 0


def _collected() -> list[str]:
    """The modules that are imported once the room's tests are collected."""
    pytest.main(["--collect-only", *_ARGUMENTS, *config().pytest_add_cli_args, *config().pytest_add_cli_args_test_selection])
    return [name for name in sys.modules if name.partition(".")[0] not in {"__main__", "tests"}]


def _import_all_but_the_code() -> None:
    """Import what no mutant changes. Whatever imports the code fails here, and is imported by each mutant."""
    code = {path.removesuffix(".py").replace("/", ".") for path in config().only_mutate}

    class Blocked(MetaPathFinder):
        def find_spec(self, name: str, *_: Any) -> None:
            if name in code:
                raise ImportError(name)

    names = isolation.run_in_fork_with_result(_collected)
    sys.meta_path.insert(0, blocked := Blocked())
    for name in names:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.meta_path.remove(blocked)


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
    """None for what is assigned, if that is no sentence."""
    if not _is_sentence(node.value):
        yield from mutators.operator_assignment(node)


_OTHERS: Final[dict[Any, Any]] = {mutators.operator_arg_removal: _arguments, mutators.operator_assignment: _assignments}


def main(workers: str, prefix: str) -> None:
    """Run mutmut in this folder with its operators, but for those that change words alone."""
    # mutmut names a module by its path, less `src.`; ours by more.
    format_utils.strip_prefix = lambda name, *, prefix_=prefix, **_: name.removeprefix(prefix_)
    operators: list[Any] = mutators.mutation_operators
    operators[:] = [(kind, _OTHERS.get(operator, operator)) for kind, operator in operators if operator is not mutators.operator_string]
    vars(isolation).update(ForkServerRunner=Server, PytestRunner=Runner)
    cli(["run", "--max-children", workers])


if __name__ == "__main__":
    main(*sys.argv[1:])
