"""Fuzzing: `make fuzz`, or `python -m tests.fuzz --cases 500`. Each kind has its share of the cases; a number is a chunk of a kind's cases.

A chunk runs in a process that is forked for it, from one that has everything loaded. Where it dies, the case that it died of is a failure,
and another process runs the rest. The files of a failed case stay under build/fuzz, with its words and what it said.
"""

import argparse
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from provision import cli
from provision.cli import COMMANDS
from provision.review import where
from tests.fuzz import kinds
from tests.fuzz.run import Case, Ending, Entry, Watch, as_line, examine

CHUNK: Final = 100
_KEPT: Final = 60


@dataclass
class Chunk:
    """Some cases of a kind, and how those that ran ended."""

    kind: str
    number: int
    count: int
    endings: list[Ending] = field(default_factory=list)
    rest: bytes = b""
    child: int = 0


@dataclass
class Fuzzer:
    """Runs chunks in processes.

    Attributes:
        kept: where the folders of failed cases stay.
    """

    entry: Entry
    work: Path
    kept: Path
    progress: bool = False

    def run(self, chunks: list[Chunk], jobs: int) -> list[Ending]:
        """Run all of them, so many at a time."""
        waiting, selector = list(reversed(chunks)), selectors.DefaultSelector()
        while waiting or selector.get_map():
            while waiting and len(selector.get_map()) < jobs:
                chunk = waiting.pop()
                selector.register(self._fork(chunk), selectors.EVENT_READ, chunk)
            for key, _ in selector.select():
                if not self._hear(key.fd, key.data):
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    if self._ended(key.data):
                        waiting.append(key.data)
                    elif self.progress:
                        print(f"{key.data.kind} {key.data.number}: {len(key.data.endings)} cases", file=sys.stderr, flush=True)
        return [ending for chunk in chunks for ending in chunk.endings]

    def _fork(self, chunk: Chunk) -> int:
        reads, writes = os.pipe()
        sys.stdout.flush()
        chunk.child = os.fork()
        if chunk.child:
            os.close(writes)
            return reads
        try:
            self._work(chunk, writes)
        except BaseException:  # noqa: BLE001 - a forked process must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def _work(self, chunk: Chunk, writes: int) -> None:
        watch, folder = Watch(), self.work / f"{chunk.kind}-{chunk.number}"
        for number, case in enumerate(self.cases(chunk)):
            if number >= len(chunk.endings):
                folder.with_suffix(".words").write_text(json.dumps(case.words))
                ending, said = examine(case, folder, watch, self.entry)
                os.chdir(self.work)
                if ending.problem:
                    self.keep(chunk, number, ending, said)
                os.write(writes, as_line(number, ending))
        shutil.rmtree(folder, ignore_errors=True)

    def cases(self, chunk: Chunk) -> list[Case]:
        """What is run; a self-test has its own."""
        return kinds.cases(chunk.kind, chunk.number, chunk.count)

    def keep(self, chunk: Chunk, number: int, ending: Ending, said: str) -> None:
        """Keep what a failed case was, for whoever looks into it."""
        target = self.kept / f"{chunk.kind}-{chunk.number}-{number}"
        folder = self.work / f"{chunk.kind}-{chunk.number}"
        if target.exists() or len(list(self.kept.glob("*"))) >= _KEPT:
            return
        if folder.is_dir():  # a process that was killed between two cases has none
            shutil.copytree(folder, target, symlinks=True, ignore=_no_files)
        target.mkdir(exist_ok=True)
        at = folder.with_suffix(".words")
        words = json.loads(at.read_text()) if at.exists() else ["…"]  # killed before its first case
        (target / "WORDS").write_text(f"gpuprov {' '.join(words)}\n{ending.problem}\n{said[:5000]}\n", errors="replace")

    def _hear(self, reads: int, chunk: Chunk) -> bool:
        more = os.read(reads, 65536)
        *lines, chunk.rest = (chunk.rest + more).split(b"\n")
        chunk.endings += [Ending(*json.loads(line)[1:]) for line in lines]
        return bool(more)

    def _ended(self, chunk: Chunk) -> bool:
        """Look after a process that ended; returns whether something of its chunk is left to run."""
        _, status = os.waitpid(chunk.child, 0)
        if not os.WIFSIGNALED(status):
            if status:
                sys.exit(f"the worker of {chunk.kind} {chunk.number} failed: see above")
            return False
        ending = Ending(chunk.kind, "?", -os.WTERMSIG(status), 0, f"killed by {signal.Signals(os.WTERMSIG(status)).name}")
        self.keep(chunk, len(chunk.endings), ending, "")
        chunk.endings.append(ending)
        return True


def _no_files(folder: str, names: list[str]) -> set[str]:
    """What cannot be copied: pipes, and files of gigabytes."""
    at = Path(folder)
    return {n for n in names if (at / n).is_fifo() or n == ".own" or ((at / n).is_file() and (at / n).stat().st_size > 1 << 28)}


def shares(total: int, first: int) -> Iterator[Chunk]:
    """The chunks of all kinds that are so many cases together."""
    whole = sum(share for _, share in kinds.MAKERS.values())
    counts = {kind: total * share // whole for kind, (_, share) in kinds.MAKERS.items()}
    counts[next(iter(counts))] += total - sum(counts.values())
    for kind, count in counts.items():
        for number, start in enumerate(range(0, count, CHUNK)):
            yield Chunk(kind, first + number, min(CHUNK, count - start))


def table(endings: list[Ending]) -> str:
    """How many cases of each kind ended with which exit code."""
    by = Counter((ending.kind, ending.code) for ending in endings)
    codes = sorted({code for _, code in by})
    lines = [f"{'kind':10}{'cases':>8}" + "".join(f"{f'exit {code}':>10}" for code in codes) + f"{'CPU, most':>12}"]
    for kind in [*dict.fromkeys(ending.kind for ending in endings), None]:
        of_kind = [ending for ending in endings if kind in {None, ending.kind}]
        numbers = "".join(f"{sum(e.code == code for e in of_kind):>10}" for code in codes)
        lines.append(f"{kind or 'all':10}{len(of_kind):>8}{numbers}{max(e.cpu_s for e in of_kind):>10.2f} s")
    return "\n".join(lines)


def prepare(work: Path) -> Entry:
    """Load what the cases need, so that none of them pays for it; returns the command line's entry."""
    for name in [n for n in os.environ if n.startswith(("AWS_", "GOOGLE_", "GPUPROV_"))]:
        del os.environ[name]
    os.environ |= {"AWS_EC2_METADATA_DISABLED": "true", "COLUMNS": "120", "HOME": str(work)}
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True
    where.FOLDER = work / "etc"  # type: ignore[misc]
    for name in COMMANDS:
        importlib.import_module(f"provision.cli.{name.replace('-', '_')}")
    watch = Watch()
    for kind in kinds.MAKERS:
        for case in kinds.cases(kind, 10**6, 10):
            examine(case, work / "first", watch, cli.main)
    os.chdir(work)
    gc.collect()
    gc.freeze()
    return cli.main


def main(words: list[str]) -> int:
    """Run the cases; returns 1 where one ended as none should."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first chunk: other numbers are other cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--kept", type=Path, default=Path("build/fuzz"), help="where the files of failed cases stay")
    parser.add_argument("--kind", choices=list(kinds.MAKERS), help="only this kind")
    parser.add_argument("--quiet", action="store_true", help="say only what came of it")
    given = parser.parse_args(words)
    kept = given.kept.absolute()
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="gpuprov-fuzz-") as work:
        fuzzer = Fuzzer(prepare(Path(work)), Path(work), kept, progress=not given.quiet)
        chunks = [chunk for chunk in shares(given.cases, given.first) if given.kind in {None, chunk.kind}]
        endings = fuzzer.run(chunks, given.jobs)
    print(table(endings))
    failed = Counter((ending.kind, ending.command, ending.problem) for ending in endings if ending.problem)
    for (kind, command, problem), times in failed.most_common():
        print(f"{times:5} x {kind} {command}: {problem}")
    print(f"{len(endings)} cases, {sum(failed.values())} failed" + (f"; their files are in {kept}" if failed else ""))
    return 1 if failed or len(endings) != sum(chunk.count for chunk in chunks) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
