"""The command line in a process that kills itself with SIGKILL at its N-th call to AWS: before it is sent, or when its answer is there.

python tests/workflow/killed.py N before|after WORDS…
"""

import os
import signal
import sys
from typing import Any

from botocore.endpoint import Endpoint

from provision.cli import main


def run(number: int, when: str, words: list[str]) -> None:
    send, calls = Endpoint._send, iter(range(1, 10_000))

    def counted(self: Any, request: Any) -> Any:
        this = next(calls) == number
        if this and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = send(self, request)
        if this:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    Endpoint._send = counted
    main(words)


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
