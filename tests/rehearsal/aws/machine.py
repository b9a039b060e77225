"""What a process on an instance of the embedded AWS without hosts does: it asks from the instance's address."""

import http.client
import json
import urllib.parse
from typing import Any

import boto3
from botocore.config import Config

from provision.clouds.aws.access import AwsAccess
from tests.rehearsal.aws.conftest import HK


class Machine:
    def __init__(self, aws: Any, access: AwsAccess, instance_id: str) -> None:
        self.id, self.access = instance_id, access
        found = aws.describe_instances(InstanceIds=[instance_id])["Reservations"][0]["Instances"][0]
        self.address = found["PublicIpAddress"]

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        where = urllib.parse.urlsplit(str(self.access.machine_endpoint_url))
        connection = http.client.HTTPConnection(where.hostname or "", where.port, source_address=(self.address, 0), timeout=20)
        connection.request(method, f"/latest/{path}", headers={key.replace("_", "-"): value for key, value in headers.items()})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()

    def metadata(self, path: str) -> str:
        _, token = self.ask("api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")
        status, text = self.ask(f"meta-data/{path}", X_aws_ec2_metadata_token=token)
        assert status == 200, text
        return text

    def credentials(self) -> dict[str, str]:
        return dict(json.loads(self.metadata(f"iam/security-credentials/{self.metadata('iam/security-credentials/')}")))

    def client(self, service: str, **changed: str) -> Any:
        given = {**self.credentials(), **changed}
        return boto3.Session().client(
            service,
            region_name=HK,
            endpoint_url=self.access.machine_endpoint_url,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["Token"],
            config=Config(retries={"total_max_attempts": 1}),
        )
