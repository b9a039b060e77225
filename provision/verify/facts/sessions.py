"""What each kind of session has on PATH, and the folders that the loader knows."""

from provision.verify.facts.base import Fact


class SessionsFacts(Fact):
    """PATH as each kind of session has it (None: not seen), and the loader's folders."""

    name = "sessions"
    login: str | None
    ssh: str | None
    service: str | None
    loader: tuple[str, ...]
