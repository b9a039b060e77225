"""The last verdict on each machine that was launched from here, kept beside the journal, for what may use proven hosts only.

There is one file for each host: evidence as `verify --evidence` writes it, and which machine it is about. A later verdict replaces it,
whether it is better or worse.
"""

import datetime as dt
import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from provision.errors import FactsInvalidError
from provision.launch.journal import Machine, Record, check_name
from provision.paths import private_dir, read_bounded, write_whole
from provision.structs import Struct
from provision.verify import evidence
from provision.verify.evidence import Conditions, Evidence, HostEvidence
from provision.verify.finding import exit_code
from provision.verify.fleet import HostVerification

_SCHEMA: Final = "gpuprov-verified/1"
_ORDER: Final = ("quick", "standard", "perf")


class _KeptFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    schema_version: Annotated[Literal["gpuprov-verified/1"], Field(alias="schema")]
    launch_id: str
    machine_id: str
    address: str
    at: Annotated[AwareDatetime, Field(strict=False)]
    evidence: dict[str, Any]


class KeptVerdict(Struct):
    """The last verdict on one machine.

    Attributes:
        launch_id, machine_id, address: the machine, as the journal had it then.
        at: when the verdict was reached, by this machine's clock.
        evidence: of this host alone; its digests fit.
    """

    launch_id: str
    machine_id: str
    address: str
    at: dt.datetime
    evidence: Evidence

    @property
    def host(self) -> HostEvidence:
        """What the evidence says of the host."""
        return self.evidence.hosts[0]

    @property
    def exit_code(self) -> int:
        """The verdict, by the rules of `verify`."""
        return exit_code([self.host.report], strict=self.evidence.conditions.strict)

    def is_about(self, record: Record, machine: Machine) -> bool:
        """Whether it is about this machine of this launch, at the address where it is now."""
        return (self.launch_id, self.machine_id, self.address) == (record.launch_id, machine.id, machine.address)


class KeptVerdicts:
    """The folder of these files.

    Args:
        folder: made with the first verdict, mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, record: Record, machine: Machine, host: HostVerification, how: Conditions) -> None:
        """Keep a verdict on a machine. One that holds and comes from some of the checks alone proves nothing, and is not kept."""
        if is_partial(host, how) and not exit_code([host.report], strict=how.strict):
            return
        data = {
            "schema": _SCHEMA,
            "launch_id": record.launch_id,
            "machine_id": machine.id,
            "address": machine.address,
            "at": dt.datetime.now(dt.UTC).isoformat(),
            "evidence": evidence.evidence([host], how),
        }
        private_dir(self._folder)
        write_whole(self._path(machine.name), json.dumps(data), sync=True)

    def of(self, host: str) -> KeptVerdict | None:
        """The last verdict on a host; None where there is none.

        Raises:
            FactsInvalidError: the file cannot be read, or what it holds does not match its digests.
        """
        path = self._path(host)
        try:
            content = _KeptFile.model_validate_json(read_bounded(path, evidence.MAX_BYTES))
            proof = evidence.from_data(content.evidence)
            if [one.host for one in proof.hosts] != [host]:
                msg = f"{path} is about another host"
                raise FactsInvalidError(msg, hint=_hint(host))
        except FileNotFoundError:
            return None
        except OSError as error:
            msg = f"cannot read {path}: {error.strerror}"
            raise FactsInvalidError(msg, hint=_hint(host)) from error
        except (ValidationError, ValueError, RecursionError) as error:
            msg = f"{path} holds no verdict: {type(error).__name__}"
            raise FactsInvalidError(msg, hint=_hint(host)) from error
        return KeptVerdict(content.launch_id, content.machine_id, content.address, content.at, proof)

    def _path(self, host: str) -> Path:
        return self._folder / f"{check_name(host)}.json"


def is_partial(host: HostVerification, how: Conditions) -> bool:
    """Whether checks were left out that the profile asks for."""
    asked = host.expectation.profile.verify.tier
    return bool(how.only or how.skip) or (how.tier is not None and _ORDER.index(how.tier) < _ORDER.index(asked))


def _hint(host: str) -> str:
    return f"`gpuprov verify {host}` writes it again"
