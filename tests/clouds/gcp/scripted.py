"""A project of GCP that answers from a script and writes down what it was sent, without HTTP."""

from __future__ import annotations

from typing import Any


class ScriptedProject:
    """Stands for `GcpProjectApi`: each (client, method) has its answers in order, of which the last one stays; an error is raised.

    An answer that is a function gets the request: of calls at the same time, each has its own.

    Attributes:
        sent: (client, method, permission, the rest) of each call.
        waited: the operations that were waited for, with their permission and time.
    """

    project = "my-project"

    def __init__(self, **answers: list[Any]) -> None:
        self._answers, self.sent, self.waited = answers, list[tuple[Any, ...]](), list[tuple[Any, ...]]()

    def call(self, kind: str, method: str, action: str, *, where: str = "", **request: Any) -> Any:
        self.sent.append((kind, method, action, {**request, **({"where": where} if where else {})}))
        answers = self._answers.get(f"{kind}_{method}", [f"operation of {method}"])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        answer = answer(request) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    pages = call

    def ask(self, service: str, verb: str, path: str, action: str) -> Any:
        return self.call(service, verb, action, path=path)

    def success_of(self, operation: Any, action: str, *, timeout_s: float) -> None:
        self.waited.append((operation, action, timeout_s))

    def run(self, kind: str, method: str, action: str, *, timeout_s: float, where: str = "", **request: Any) -> None:
        self.success_of(self.call(kind, method, action, where=where, **request), action, timeout_s=timeout_s)
