"""The command line in a process that kills itself with SIGKILL at its N-th call to a cloud: before it is sent, or when its answer is there.

Of Google's calls those count that change something: a kill at a read is one before the next change.

python tests/workflow/killed.py N before|after WORDS…
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from botocore.endpoint import Endpoint
from google.auth.transport.requests import AuthorizedSession

from provision.cli import main


def run(number: int, when: str, words: list[str]) -> None:
    calls = iter(range(1, 10_000))

    def count(kind: Any, method: str, counts: Callable[..., bool]) -> None:
        """Count the calls of a library that count."""
        send = getattr(kind, method)

        def counted(self: Any, *args: Any, **more: Any) -> Any:
            this = counts(*args) and next(calls) == number
            if this and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            answer = send(self, *args, **more)
            if this:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        setattr(kind, method, counted)

    count(Endpoint, "_send", lambda *_: True)
    count(AuthorizedSession, "request", lambda verb, url, *_: verb != "GET" and not url.endswith(("/wait", "/listManagedInstances")))
    main(words)


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
