"""What each kind of session has on PATH, and the folders that the loader knows."""

from pydantic import Field

from provision.verify.facts.base import Fact, FactPart


class SudoFacts(FactPart):
    """Whether there is sudo, and the PATH that it gives its commands; None where it could not be asked without a password."""

    exists: bool
    path: str | None


class Tool(FactPart):
    """A program on a PATH, whether it is of the linked toolkit, and its version; None where it told none."""

    path: str
    own: bool
    version: str | None


class SessionsFacts(Fact):
    """PATH as each kind of session has it (None: not seen), and the loader's folders.

    Where a PATH finds several programs of one name among CUDA's, `tools` has them in its order: session, then name.
    """

    name = "sessions"
    login: str | None
    ssh: str | None
    service: str | None
    sudo: SudoFacts | None = None
    loader: tuple[str, ...]
    tools: dict[str, dict[str, tuple[Tool, ...]]] = Field(default_factory=dict)
