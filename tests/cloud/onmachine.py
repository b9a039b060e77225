"""What a machine on GCP answers of the questions, with its own service account: sent to it as its start-up script."""

import json
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

CONSOLE = "/dev/console"
MARK = "gpuprov-question"


def say(number: int, text: str) -> None:
    """A line for the console, which whoever asked reads."""
    line = f"{MARK} {number}: {text}\n"
    sys.stdout.write(line)
    try:
        with Path(CONSOLE).open("a") as console:
            console.write(line)
    except OSError:
        pass


def status(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, bytes]:
    """What a request is answered with, and the answer."""
    request = urllib.request.Request(url, data=body, headers=headers, method=method)  # noqa: S310 - Google's, or the embedded cloud's
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310 - as above
            return reply.status, reply.read(65536)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(65536)


def main(config: dict[str, str]) -> None:
    """Answer the first question, and where there is a bucket the second and the third."""
    say(1, f"cloud-init is {'there' if shutil.which('cloud-init') else 'not there'}")
    if not config:
        return
    asked = f"{config['metadata']}/computeMetadata/v1/instance/service-accounts/default/token"
    token = json.loads(status("GET", asked, {"Metadata-Flavor": "Google"})[1].decode())["access_token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
    missing = urllib.parse.quote(config["missing"], safe="")
    url = f"{config['storage']}/storage/v1/b/{config['bucket']}/o/{missing}?alt=media"
    say(2, f"HTTP {status('GET', url, headers)[0]}")
    query = urllib.parse.urlencode({"uploadType": "media", "name": config["written"], "ifGenerationMatch": "0"})
    url = f"{config['storage']}/upload/storage/v1/b/{config['bucket']}/o?{query}"
    first, second = (status("POST", url, headers, b"gpuprov asks\n")[0] for _ in range(2))
    say(3, f"HTTP {first}, then HTTP {second}")
