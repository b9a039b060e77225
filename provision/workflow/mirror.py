"""`mirror`: a folder with what one profile's lock downloads."""

from pathlib import Path

from provision.converge.roles import ROLES
from provision.converge.variables import variables
from provision.mirror.fill import Filled, fill
from provision.profile.exact import refuse_vanished
from provision.workflow.session import ProfileSource, Say


def fill_for(name: str, folder: Path, say: Say) -> Filled:
    """Fill a folder for the lock beside a profile, or the one that would be locked today."""
    source = ProfileSource.read(name)
    refuse_vanished(source.lock)
    return fill(source.lock, folder, variables(source.profile, source.lock, ROLES), say=say)
