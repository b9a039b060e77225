"""What works on a GPU: each release is given to the resolver on its own, and either resolves or is refused."""

import datetime as dt
from typing import Any

from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.resolve import StackRequest, resolve
from provision.errors import StackConflictError
from provision.structs import replace


def survey(gpu: str, system: str, today: dt.date) -> list[dict[str, Any]]:
    """A line for each toolkit, cuDNN and framework release: the driver and toolkit it resolves to, or why it cannot be had.

    Args:
        gpu: a model of the catalog.
        system: as `ubuntu 24.04`.
        today: the day whose supported driver branches count.

    Raises:
        StackConflictError: the GPU or system itself is not in the catalog.
    """
    parts = {
        "cuda": [t.version for t in read.toolkits().toolkits],
        "cudnn": [c.version for c in read.cudnn().releases],
        **{name: [r.version for r in releases] for name, releases in read.frameworks().items()},
    }
    if system not in {s.key for s in read.systems().systems}:
        resolve(StackRequest(gpu=gpu, os=system), today)  # says what there is
    lines = []
    for part, versions in parts.items():
        for release in sorted(versions, key=version, reverse=True):
            request = replace(StackRequest(gpu=gpu, os=system), **{part: release})  # type: ignore[arg-type]  # all of them are texts
            line: dict[str, Any] = {"gpu": gpu, "part": part, "version": release, "driver": None, "cuda": None, "why": ""}
            try:
                stack = resolve(request, today, explain=False)
            except StackConflictError as refusal:
                line["why"] = "; ".join(refusal.conflict.reasons) if refusal.conflict else refusal.message
            else:
                line |= {"driver": f"{stack.values['driver']} {stack.values['flavour']}", "cuda": stack.values["cuda"]}
                line["why"] = "; ".join(f"against advice: {w}" for w in stack.warnings)
            lines.append(line)
    return lines
