"""What each kind of session has on PATH, and the folders that the loader knows."""

from provision.verify.facts.base import Fact, FactPart


class SudoFacts(FactPart):
    """Whether there is sudo, and the PATH that it gives its commands; None where it could not be asked without a password."""

    exists: bool
    path: str | None


class SessionsFacts(Fact):
    """PATH as each kind of session has it (None: not seen), and the loader's folders."""

    name = "sessions"
    login: str | None
    ssh: str | None
    service: str | None
    sudo: SudoFacts | None = None
    loader: tuple[str, ...]
