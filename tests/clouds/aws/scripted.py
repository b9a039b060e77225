"""A region of AWS that answers from a script and writes down what it was sent, without HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from provision.clouds.aws.access import AwsAccess
from provision.clouds.aws.api import AwsRegionApi

Sent = tuple[str, dict[str, Any]]


def refusal(code: str) -> ClientError:
    """EC2's answer with this code."""
    return ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Call")


class Script:
    """A client: each method has its answers in order, of which the last one stays; an error among them is raised.

    Attributes:
        sent: (method, parameters) of each call; methods of the client that never repeats a call begin with `once:`.
    """

    def __init__(self, answers: dict[str, list[Any]], sent: list[Sent], prefix: str = "") -> None:
        self._answers, self.sent, self._prefix = answers, sent, prefix

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(**parameters: Any) -> Any:
            self.sent.append((f"{self._prefix}{method}", parameters))
            answers = self._answers.get(method, [{}])
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    def get_paginator(self, method: str) -> Any:
        script = self

        class Pager:
            def paginate(self, **parameters: Any) -> list[Any]:
                """Two pages, where the script has a list."""
                answer = getattr(script, method)(**parameters)
                return answer if isinstance(answer, list) else [answer]

        return Pager()


class ScriptedApi(AwsRegionApi):
    """The region."""

    def __init__(self, **answers: list[Any]) -> None:
        super().__init__("us-east-1", AwsAccess(caller_address_url="http://127.0.0.1:9/"))
        self.sent: list[Sent]
        object.__setattr__(self, "sent", [])
        object.__setattr__(self, "_answers", answers)

    def client(self, service: str, *, retried: bool = True) -> Any:  # noqa: ARG002 - one script has all services
        assert service in {"autoscaling", "ec2", "iam", "kms", "service-quotas", "ssm", "sts"}
        return Script(self._answers, self.sent)  # type: ignore[attr-defined]

    @property
    def ec2(self) -> Any:
        return Script(self._answers, self.sent)  # type: ignore[attr-defined]

    @property
    def ec2_once(self) -> Any:
        return Script(self._answers, self.sent, "once:")  # type: ignore[attr-defined]

    def methods(self) -> list[str]:
        """The methods that were called."""
        return [method for method, _ in self.sent]
