"""A facts file: read with bounds, because it comes from a stranger."""

import json
import sys
from pathlib import Path
from typing import Any, Final

from provision.errors import FactsInvalidError
from provision.paths import read_bounded
from provision.verify.facts.base import SCHEMA, Facts

# Real facts are tens of kilobytes. What is made of JSON text needs up to thirty times its size in memory.
MAX_BYTES: Final = 4 * 1024 * 1024
_MAX_FACT: Final = 512 * 1024
_MAX_FACTS: Final = 1000
_MAX_ELAPSED_S: Final = 1_000_000
_HINT: Final = "make one with `gpuprov probe HOST > facts.json`"


def parse(data: Any, origin: str) -> Facts:
    """Facts from JSON data; FactsInvalidError where it holds none, or of another version. `origin` is for its message."""
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        msg = f"{origin} holds no facts of version {SCHEMA}"
        raise FactsInvalidError(msg, hint=_HINT)
    gathered, elapsed, raw = data.get("gathered_at"), data.get("elapsed_s"), data.get("facts")
    if not isinstance(gathered, str) or not isinstance(elapsed, int | float) or not isinstance(raw, dict):
        msg = f"{origin} holds broken facts: gathered_at, elapsed_s or facts is not what it should be"
        raise FactsInvalidError(msg, hint=_HINT)
    if not abs(elapsed) < _MAX_ELAPSED_S:  # written so that it holds for NaN as well
        msg = f"{origin} holds broken facts: they took longer than anybody waits"
        raise FactsInvalidError(msg, hint=_HINT)
    if len(raw) > _MAX_FACTS:
        msg = f"{origin} holds {len(raw)} facts, and there are never more than {_MAX_FACTS}"
        raise FactsInvalidError(msg, hint=_HINT)
    # What is no larger than one fact may be as a whole has no fact that is, and is measured once.
    raw = raw if bounded(raw) is raw else {name: bounded(answer) for name, answer in raw.items()}
    return Facts(gathered[:40], float(elapsed), raw)


def bounded(answer: Any) -> Any:
    """A fact as it is; unknown where it is larger than it can be, so that no check and no report has to carry it."""
    try:
        size = len(json.dumps(answer))
    except (ValueError, RecursionError):
        return {"unknown": "nested deeper than facts are"}
    return answer if size <= _MAX_FACT else {"unknown": f"{size >> 10} KiB were sent for it, more than a fact can be"}


def dump(facts: Facts) -> str:
    """The facts file of an observation."""
    return json.dumps(facts.as_dict(), indent=1, sort_keys=True) + "\n"


def load(path: Path) -> Facts:
    """Read a facts file; `-` is standard input. FactsInvalidError where it cannot be read, or holds no facts."""
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if str(path) == "-" else read_bounded(path, MAX_BYTES)
        if len(raw) > MAX_BYTES:
            msg = f"{path} is larger than facts can be"
            raise FactsInvalidError(msg, hint=_HINT)
        return parse(json.loads(raw), str(path))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is not JSON: {str(error)[:100]}"
        raise FactsInvalidError(msg, hint=_HINT) from error
