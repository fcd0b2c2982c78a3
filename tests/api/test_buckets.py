"""Buckets: made, found, refused, removed."""
import botocore.exceptions
import pytest


def error_code(call, **arguments) -> tuple[int, str]:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def test_a_new_bucket_is_listed_and_found(s3, bucket):
    assert bucket in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None


def test_making_ones_own_bucket_again_is_not_an_error_in_us_east_1(s3, bucket):
    s3.create_bucket(Bucket=bucket)


@pytest.mark.parametrize("name", ["ab", "a" * 64, "UPPER-case", "under_score", "-dash-first", "dot..dot",
                                  "192.168.1.1"])
def test_bad_bucket_names_are_refused(server, name):
    import raw
    answer = raw.request(server, "PUT", f"/{name}")
    assert (answer.status, answer.code) == (400, "InvalidBucketName")


def test_a_bucket_that_is_not_there(s3):
    assert error_code(s3.head_bucket, Bucket="no-such-bucket")[0] == 404
    assert error_code(s3.get_object, Bucket="no-such-bucket", Key="k") == (404, "NoSuchBucket")
    assert error_code(s3.put_object, Bucket="no-such-bucket", Key="k", Body=b"x") == (404, "NoSuchBucket")
    assert error_code(s3.list_objects_v2, Bucket="no-such-bucket") == (404, "NoSuchBucket")
    assert error_code(s3.delete_bucket, Bucket="no-such-bucket") == (404, "NoSuchBucket")


def test_a_bucket_with_objects_or_uploads_is_not_removed(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert error_code(s3.delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.create_multipart_upload(Bucket=bucket, Key="k")
    assert error_code(s3.delete_bucket, Bucket=bucket) == (409, "BucketNotEmpty")


def test_another_region_is_refused(s3):
    code = error_code(s3.create_bucket, Bucket="elsewhere-bucket",
                      CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    assert code == (400, "IllegalLocationConstraintException")


def test_what_is_not_there_yet_says_so_in_xml(s3, bucket):
    assert error_code(s3.get_bucket_policy, Bucket=bucket) == (501, "NotImplemented")
    assert error_code(s3.put_bucket_tagging, Bucket=bucket,
                      Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}) == (501, "NotImplemented")
