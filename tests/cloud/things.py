"""Everything that has a launch's name at its cloud, in each region of a profile: asked of the cloud itself, not of the journal.

@things PROFILE NAME [--rehearse]
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from provision.profile import load
from provision.workflow.session import Session

WORD: Final = "@things"
"""The word that `recorded` takes for this in the place of a command."""


def main(words: Sequence[str]) -> None:
    """Print what is there; an error of a cloud ends it, because what could not be asked is not gone."""
    parser = argparse.ArgumentParser(prog=WORD)
    parser.add_argument("profile", type=Path)
    parser.add_argument("name")
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args(words)
    connect = Session.open().connect(rehearsal=given.rehearse)
    regions = {(place.cloud, place.region_of(where)) for place in load.load(given.profile).places for where in place.locations}
    alive = [
        {"cloud": cloud, "region": region, "kind": thing.kind, "id": thing.id}
        for cloud, region in sorted(regions)
        for thing in connect(cloud, region).things(given.name)
        if thing.alive
    ]
    print(json.dumps({"regions": sorted(map(list, regions)), "alive": alive}))
