"""What the requests to the embedded S3 are: the action, the resource and the condition keys of each; moto keeps the objects.

Source: docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html. Addresses have the bucket in the path. A bucket is
reached in its own region alone, and S3 says which one that is, whether or not the caller may use it:
docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html, and for 301 PermanentRedirect …/API/ErrorResponses.html.
"""

import urllib.parse
from collections.abc import Collection, Iterable
from typing import Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from provision.rehearsal.aws.permissions import AwsCall, Need
from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.base import Environ
from provision.rehearsal.faults import Fault

_OBJECT: Final = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "POST": "PutObject", "DELETE": "DeleteObject"}
_USES: Final = {"GetObject": "kms:Decrypt", "PutObject": "kms:GenerateDataKey"}
_BUCKET: Final = {"GET": "ListBucket", "HEAD": "ListBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket", "POST": "DeleteObject"}


def call_of(environ: Environ, region: str) -> AwsCall:
    """The request as a call, with `Bucket`, `Key` and, for a listing, `Prefix` as its parameters."""
    bucket, _, key = str(environ["PATH_INFO"]).lstrip("/").partition("/")
    query = dict(urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    action = (_OBJECT if key else _BUCKET).get(environ["REQUEST_METHOD"], "Unknown") if bucket else "ListAllMyBuckets"
    return AwsCall("s3", action, region, {"Bucket": bucket, "Key": key, "Prefix": query.get("prefix", "")})


def ensure(call: AwsCall, missing: Collection[str]) -> None:
    """Have the bucket that the account's owner names, unless it is missing, so that a rehearsal needs none of its own."""
    backend, name = s3_backends[DEFAULT_ACCOUNT_ID]["aws"], call.params["Bucket"]
    if call.action in {"PutObject", "ListBucket"} and name and name not in backend.buckets and name not in missing:
        backend.create_bucket(name, call.region)


def region_of(call: AwsCall) -> dict[str, str]:
    """The header of S3's answers that names the bucket's region; none where there is no such bucket."""
    bucket = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(call.params.get("Bucket", "")) if call.service == "s3" else None
    return {"x-amz-bucket-region": str(bucket.region_name)} if bucket else {}


def moved(call: AwsCall) -> Fault | None:
    """The answer to a request in another region than the bucket's."""
    own = region_of(call).get("x-amz-bucket-region", call.region)
    words = "The bucket you are attempting to access must be addressed using the specified endpoint."
    return None if own == call.region else Fault("error", code="PermanentRedirect", message=words, http=301)


def asked(call: AwsCall, settings: AwsSettings) -> Iterable[Need]:
    """What a call needs; of an object under a key of the account's own, the use of the key as well, by way of S3.

    docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html, "Permissions".
    """
    if call.service == "s3":
        where = {"aws:RequestedRegion": call.region}
        key = f"/{call.params['Key']}" if call.params["Key"] else ""
        listed = {"s3:prefix": call.params["Prefix"]} if call.action == "ListBucket" else {}
        yield Need(f"s3:{call.action}", f"arn:aws:s3:::{call.params['Bucket']}{key}", where | listed)
        used, own = _USES.get(call.action), settings.bucket_keys.get(call.params["Bucket"])
        if used and own:
            yield Need(used, own, {"kms:ViaService": f"s3.{call.region}.amazonaws.com"})
