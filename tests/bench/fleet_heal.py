"""A fleet of real members, some of whose plugs are pulled while no command of gpuprov runs: how long until all serve again.

Each member sets itself up from the signed bundle. What counts as healed: as many members as before, those that were hurt with other ids and
with evidence of another boot, the others as they were, and no doubt about any.

Run: python -m tests.bench.fleet_heal [64 [8]]   (fs.inotify.max_user_instances must be ten times the number of hosts)
"""

import contextlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.fleet import timed
from tests.workflow.broken_hosts import Machines

ACCOUNT = "gpu-node@gpuprov-rehearsal.iam.gserviceaccount.com"
LONGEST_S = 1500.0


def main() -> None:
    count, hurt = (int(word) for word in (sys.argv[1:] + ["64", "8"][len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as until_end:
        machines = Machines(Path(place))
        until_end.callback(machines.gpuprov, "rehearse", "stop")
        heal(machines, count, hurt)


def heal(machines: Machines, count: int, hurt: int) -> None:
    """Make a fleet, hurt it, and look at it until it is whole."""
    profile = machines.small_profile()
    place = re.sub(r"( +)gpu: t4\n", rf"\g<0>\g<1>identity: {{service_account: {ACCOUNT}}}\n", profile.read_text(), count=1)
    profile.write_text(place)
    words = ("fleet", "up", str(profile), "--name", "ff", "--store", "gs://a-store/x", "--rehearse", "gcp", "--without-gpu")
    began = time.monotonic()
    timed(machines, (*words, "--count", str(count)), f"fleet up of {count}")
    before = whole(machines, count, lambda _rows: True)
    print(f"{count} members serve after {time.monotonic() - began:.0f} s", flush=True)

    sick, began = sorted(before)[:hurt], time.monotonic()
    for name in sick:
        machines.cut_power(f"gce-{before[name]['id']}")

    def others(rows: dict[str, Any]) -> bool:
        return not {before[name]["id"] for name in sick} & {row["id"] for row in rows.values()}

    after = whole(machines, count, others)
    kept = [name for name in before if name not in sick]
    same = [name for name in kept if (after[name]["id"], after[name]["boot_id"]) == (before[name]["id"], before[name]["boot_id"])]
    anew = [name for name in sick if name in after and after[name]["boot_id"] != before[name]["boot_id"]]
    doubts = [row["doubt"] for row in after.values() if row["doubt"]]
    print(
        f"{hurt} plugs pulled: {count} serve again after {time.monotonic() - began:.0f} s; {len(anew)} of {hurt} under their names with "
        f"other ids and evidence of other boots, {len(same)} of {len(kept)} as they were, {len(doubts)} doubts",
        flush=True,
    )
    timed(machines, ("fleet", "down", "ff", "--yes"), "fleet down")
    assert (len(anew), len(same), doubts) == (hurt, len(kept), [])


def whole(machines: Machines, count: int, also: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The members by name, once all of them serve and each has said so itself in this boot."""
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        view = json.loads(machines.gpuprov("fleet", "status", "ff", "--json").stdout)
        rows = {row["name"]: row for row in view["members"]}
        if view["serving"] == len(rows) == count and all(row["boot_id"] for row in rows.values()) and also(rows):
            return rows
        time.sleep(2.0)
    sys.exit(f"not whole after {LONGEST_S:.0f} s: {view}")


if __name__ == "__main__":
    main()
