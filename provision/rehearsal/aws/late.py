"""Eventual consistency of the embedded EC2: for a moment other calls do not know what was just made, and its tags come later still.

"If you run a command to modify or describe the resource that you just created, its ID might not have propagated throughout the system,
and you will get an error responding that the resource does not exist": docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html.
How long is a share of `lag_s`, drawn by `lag_seed` for each thing in the order in which they are made.
"""

import random
import time
from typing import Final

from provision.rehearsal.aws.permissions import AwsCall
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.faults import Fault

# The codes: docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html; the words are those of moto.
_UNKNOWN: Final = {
    "i-": ("InvalidInstanceID.NotFound", "The instance ID '{}' does not exist"),
    "sg-": ("InvalidGroup.NotFound", "The security group '{}' does not exist"),
    "ami-": ("InvalidAMIID.NotFound", "The image id '[{}]' does not exist"),
}
_born: Final[dict[str, tuple[float, int]]] = {}  # what was made → when, and its number


def born(thing: str) -> None:
    """Note that a thing begins to exist: by its id, or `tags ID` for the first tags of one."""
    _born.setdefault(thing, (time.monotonic(), len(_born)))


def is_late(thing: str, settings: AwsSettings, more_s: float = 0.0) -> bool:
    """Whether other calls do not know it yet; `more_s` is a time that holds for every thing alike."""
    if thing not in _born:
        return False
    made, number = _born[thing]
    share = random.Random(f"{settings.lag_seed}/{number}").random()  # noqa: S311 - repeatable
    return time.monotonic() < made + more_s + share * settings.lag_s


def refusal(call: AwsCall, settings: AwsSettings) -> Fault | None:
    """The answer to a call that names what is not known yet, as a fault. A filter that names it finds nothing instead."""
    for key, value in call.params.items() if call.service == "ec2" else ():
        code, words = _UNKNOWN.get(f"{value.partition('-')[0]}-", ("", ""))
        if code and not key.startswith("Filter.") and is_late(value, settings):
            return Fault("error", code=code, message=words.format(value))
    return None
