"""The bucket of a fleet: which region it is in, and whether these credentials reach it. Asked before anything is made.

Members sign for the bucket's own region: S3 refuses every other one, and only SDKs go where it sends them.
"""

from typing import Any

import botocore.exceptions as boto

from provision.clouds import base
from provision.clouds.aws.api import AwsRegionApi
from provision.clouds.aws.errors import cloud_errors, is_refusal
from provision.errors import CloudInvalidError


def region_of(api: AwsRegionApi, bucket: str, listed: str) -> str:
    """The region of a bucket in which these credentials may list what begins so.

    "You can make a HeadBucket call on any bucket name to any Region in the partition, and regardless of the permissions on the bucket, you
    will receive a response header with the correct bucket location": docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html.

    Raises:
        CloudInvalidError: there is no such bucket.
        PermissionRefusedError: they may not list it.
    """
    store = api.client("s3")
    with cloud_errors("s3:ListBucket", api.region):
        try:
            answer: dict[str, Any] = store.head_bucket(Bucket=bucket)
        except boto.ClientError as error:
            if is_refusal(error, "404", "NoSuchBucket"):
                msg = f"there is no bucket {bucket}"
                raise CloudInvalidError(
                    msg, hint="make the bucket, or correct the store: fleet.store of the profile, or --store"
                ) from error
            answer = error.response
        store.list_objects_v2(Bucket=bucket, Prefix=listed, MaxKeys=1)  # may do what HeadBucket may not: the policy names the prefix
    headers: dict[str, str] = answer["ResponseMetadata"]["HTTPHeaders"]
    return headers.get("x-amz-bucket-region", api.region)


def examine(api: AwsRegionApi, order: base.Order) -> base.Answer:
    """Whether the bucket of a planned fleet is there, and where."""
    bucket, _, prefix = order.store.partition("://")[2].partition("/")
    try:
        region = region_of(api, bucket, f"{prefix}{'/' if prefix else ''}evidence/{order.name}/")
    except CloudInvalidError as error:
        return base.Answer("store", holds=False, said=error.message)
    return base.Answer("store", holds=True, said=f"bucket {bucket} is in {region}")
