"""The rehearsal's own paths, beside those of the clouds."""

import http.client
import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError

from provision.errors import RehearsalFailedError
from provision.rehearsal import control
from provision.rehearsal.control import Rehearsal
from tests.embedded import Embedded


def test_settings_of_all_clouds_are_shown_together_and_changed_by_name(ec2: Rehearsal) -> None:
    changed = control.ask(ec2, "settings", method="PUT", body={"pending_s": 7.5, "gce_running_s": 8.5})
    assert (changed["pending_s"], changed["gce_running_s"]) == (7.5, 8.5)
    assert control.ask(ec2, "settings") == changed


@pytest.mark.parametrize(("path", "body"), [("settings", {"no_such_setting": 1}), ("settings", [1]), ("nothing", {})])
def test_what_does_not_exist_is_refused(ec2: Rehearsal, path: str, body: object) -> None:
    with pytest.raises(RehearsalFailedError, match=f"refuses this request for {path}"):
        control.ask(ec2, path, method="PUT", body=body)  # type: ignore[arg-type]  # that is the point


def test_the_log_is_emptied(ec2: Rehearsal) -> None:
    assert control.ask(ec2, "calls", method="DELETE") == []
    assert control.ask(ec2, "status")["instances"] == []


PAGES = [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "rebound.evil.example"}, {"Host": "127.0.0.1"}, {"Host": ""}]
STARTS = {
    "aws": ("/", "Action=RunInstances&Version=2016-11-15&ImageId=ami-1&MinCount=1&MaxCount=1"),
    "gcp": ("/compute/v1/projects/gpuprov-rehearsal/zones/us-central1-a/instances", "{}"),
    "digitalocean": ("/v2/droplets", "{}"),
}


def _post(endpoint: str, path: str, body: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=30)
    try:
        connection.request("POST", path, body, {"Content-Type": "text/plain", **headers})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("headers", PAGES, ids=str)
@pytest.mark.parametrize("cloud", STARTS)
def test_what_a_web_page_sends_reaches_no_cloud(ec2: Rehearsal, cloud: str, headers: dict[str, str]) -> None:
    control.ask(ec2, "calls", method="DELETE")
    for path, body in (STARTS[cloud], ("/_rehearsal/settings", "{}"), ("/_rehearsal/caller-address", "")):
        assert _post(ec2.endpoints[cloud], path, body, headers) == 403
    assert (control.ask(ec2, "calls"), control.ask(ec2, "status")["instances"]) == ([], [])


@pytest.mark.parametrize("headers", PAGES, ids=str)
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_what_a_web_page_sends_reaches_no_metadata_of_machines(ec2: Rehearsal, cloud: str, headers: dict[str, str]) -> None:
    machines = ec2.access[cloud]["machine_endpoint_url"]
    for path in ("/latest/api/token", "/computeMetadata/v1/instance/id", STARTS[cloud][0]):
        assert _post(machines, path, "", headers) == 403


def test_localhost_is_a_name_of_the_clouds(ec2: Rehearsal) -> None:
    endpoint = urlsplit(ec2.endpoints["aws"])
    assert _post(ec2.endpoints["aws"], "/_rehearsal/caller-address", "", {"Host": f"localhost:{endpoint.port}"}) == 200


SECRETS = [None, "Bearer ", "Bearer rehearsal", "Bearer dop_v1_rehearsal", "Bearer " + "0" * 64]


@pytest.mark.rehearsal
@pytest.mark.parametrize("cloud", STARTS)
def test_another_user_of_the_machine_starts_nothing(ec2: Rehearsal, cloud: str) -> None:
    """As uid nobody, who finds the port in /proc/net/tcp: no secret, and those that were constants once."""
    control.ask(ec2, "calls", method="DELETE")
    path, body = STARTS[cloud]
    program = (
        "import json, sys, urllib.error, urllib.request\n"
        "for header in json.loads(sys.argv[3]):\n"
        "    headers = {'Authorization': header} if header else {}\n"
        "    request = urllib.request.Request(sys.argv[1], data=sys.argv[2].encode(), headers=headers)\n"
        "    try: urllib.request.urlopen(request)\n"
        "    except urllib.error.HTTPError as error: print(error.code)\n"
        "    else: print('taken')\n"
    )
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", program]
    signed = "AWS4-HMAC-SHA256 Credential=rehearsal/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=" + "0" * 64
    for address in (f"{ec2.endpoints[cloud]}{path}", f"{ec2.endpoints[cloud]}/_rehearsal/settings"):
        ended = subprocess.run([*nobody, address, body, json.dumps([*SECRETS, signed])], capture_output=True, text=True, check=True)
        assert set(ended.stdout.split()) <= {"401", "403"}, ended.stdout
        assert ended.stdout.count("40") == len(SECRETS) + 1
    assert control.ask(ec2, "status")["instances"] == []


@pytest.mark.parametrize("service", ["ec2", "ssm", "sts", "iam", "autoscaling", "service-quotas", "cloudformation", "kms", "pricing"])
def test_every_service_of_aws_wants_a_signature_by_the_secret_of_this_start(ec2: Rehearsal, service: str) -> None:
    """boto3 signs with the key that was a constant once."""
    keys = {"aws_access_key_id": "rehearsal", "aws_secret_access_key": "rehearsal"}
    client = boto3.client(service, region_name="us-east-1", endpoint_url=ec2.endpoints["aws"], **keys)
    call = {"ssm": "describe_parameters", "sts": "get_caller_identity", "iam": "list_roles", "service-quotas": "list_services"}
    call |= {"ec2": "describe_instances", "autoscaling": "describe_auto_scaling_groups", "kms": "list_keys", "pricing": "describe_services"}
    with pytest.raises(ClientError) as refused:
        getattr(client, call.get(service, "list_stacks"))()
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"


def test_each_start_has_a_secret_of_its_own_and_nobody_else_can_read_it(ec2: Rehearsal, embedded: Embedded, tmp_path: Path) -> None:
    other = embedded.start(tmp_path / "other")
    try:
        mine, theirs = (
            [each.secret, each.access["aws"]["secret_access_key"], each.access["gcp"]["token"], each.access["digitalocean"]["token"]]
            for each in (ec2, other)
        )
        assert not {*mine} & {*theirs}
        assert min(map(len, mine)) >= 64
        assert [path.stat().st_mode & 0o777 for path in (other.folder, other.folder / "server.json")] == [0o700, 0o600]
    finally:
        assert control.stop(other.folder)
