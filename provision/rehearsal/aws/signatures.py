"""Who signed a request to the embedded AWS, and whether the signature holds; moto checks none.

Signature Version 4: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. The path of S3 is not encoded
twice. What is signed but not sent as such (streams, presigned addresses) is refused and not guessed.
"""

import base64
import datetime as dt
import hashlib
import hmac
import re
import urllib.parse
from collections.abc import Callable
from typing import Final

from provision.rehearsal.base import Environ

_SIGNED: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})"
)
_SKEW: Final = dt.timedelta(minutes=15)
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"

SecretOf = Callable[[str, str], str | None]
"""(access key id, session token) → the secret key; None for credentials that do not exist."""


def key_id_of(environ: Environ) -> str:
    """The access key id that a request names; empty for an unsigned one."""
    found = re.search(r"Credential=([^/,]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    return found[1] if found else ""


def complaint(environ: Environ, body: bytes, secret_of: SecretOf, now: dt.datetime) -> tuple[str, str]:
    """What is wrong with a request's signature, as AWS's code and words; two empty texts where it holds.

    Args:
        environ: the request.
        body: its body.
        secret_of: the credentials that exist.
        now: the time.
    """
    parsed = _SIGNED.fullmatch(environ.get("HTTP_AUTHORIZATION", ""))
    if parsed is None:
        return "AccessDenied", "Anonymous access is forbidden for this operation"
    key, date, region, service, names, signature = parsed.groups()
    secret = secret_of(key, environ.get("HTTP_X_AMZ_SECURITY_TOKEN", ""))
    if secret is None:
        return "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."
    stamp = environ.get("HTTP_X_AMZ_DATE", "")
    try:
        moment = dt.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
    except ValueError:
        return "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header"
    if abs(now - moment) > _SKEW or not stamp.startswith(date):
        return "RequestTimeTooSkewed", "The difference between the request time and the current time is too large."
    declared = environ.get("HTTP_X_AMZ_CONTENT_SHA256", "") or hashlib.sha256(body).hexdigest()
    if declared != _UNSIGNED and (not _HEX.fullmatch(declared) or declared != hashlib.sha256(body).hexdigest()):
        return "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."
    headers = "".join(f"{name}:{_header(environ, name)}\n" for name in names.split(";"))
    canonical = "\n".join([environ["REQUEST_METHOD"], _path(environ, service), _query(environ), headers, names, declared])
    scope = f"{date}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    signing = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    if not hmac.compare_digest(hmac.digest(signing, text.encode(), "sha256").hex(), signature):
        return "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided."
    given = environ.get("HTTP_X_AMZ_CHECKSUM_SHA256", "")
    if given and given != base64.b64encode(hashlib.sha256(body).digest()).decode():
        return "BadDigest", "The SHA256 you specified did not match the calculated checksum."
    return "", ""


def _header(environ: Environ, name: str) -> str:
    known = name.upper().replace("-", "_")
    value = environ.get(known if name in {"content-type", "content-length"} else f"HTTP_{known}", "")
    return " ".join(str(value).split())


def _path(environ: Environ, service: str) -> str:
    """The path as it was sent, which other services encode once more."""
    sent = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or environ["PATH_INFO"]).partition("?")[0]
    return sent if service == "s3" else urllib.parse.quote(sent, safe="/-_.~")


def _query(environ: Environ) -> str:
    pairs = urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    encoded = [(urllib.parse.quote(key, safe="-_.~"), urllib.parse.quote(value, safe="-_.~")) for key, value in pairs]
    return "&".join(f"{key}={value}" for key, value in sorted(encoded))
