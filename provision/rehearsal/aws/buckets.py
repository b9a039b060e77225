"""What the requests to the embedded S3 are: the action, the resource and the condition keys of each; moto keeps the objects.

Source: docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html. Addresses have the bucket in the path.
"""

import urllib.parse
from collections.abc import Iterable
from typing import Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from provision.rehearsal.aws.permissions import AwsCall, Need
from provision.rehearsal.base import Environ

_OBJECT: Final = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "POST": "PutObject", "DELETE": "DeleteObject"}
_BUCKET: Final = {"GET": "ListBucket", "HEAD": "ListBucket", "PUT": "CreateBucket", "DELETE": "DeleteBucket", "POST": "DeleteObject"}


def call_of(environ: Environ, region: str) -> AwsCall:
    """The request as a call, with `Bucket`, `Key` and, for a listing, `Prefix` as its parameters."""
    bucket, _, key = str(environ["PATH_INFO"]).lstrip("/").partition("/")
    query = dict(urllib.parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
    action = (_OBJECT if key else _BUCKET).get(environ["REQUEST_METHOD"], "Unknown") if bucket else "ListAllMyBuckets"
    return AwsCall("s3", action, region, {"Bucket": bucket, "Key": key, "Prefix": query.get("prefix", "")})


def ensure(call: AwsCall) -> None:
    """Have the bucket that the account's owner names, so that a rehearsal needs none of its own."""
    backend, name = s3_backends[DEFAULT_ACCOUNT_ID]["aws"], call.params["Bucket"]
    if call.action in {"PutObject", "ListBucket"} and name and name not in backend.buckets:
        backend.create_bucket(name, call.region)


def asked(call: AwsCall) -> Iterable[Need]:
    """What a call needs."""
    if call.service == "s3":
        where = {"aws:RequestedRegion": call.region}
        key = f"/{call.params['Key']}" if call.params["Key"] else ""
        listed = {"s3:prefix": call.params["Prefix"]} if call.action == "ListBucket" else {}
        yield Need(f"s3:{call.action}", f"arn:aws:s3:::{call.params['Bucket']}{key}", where | listed)
