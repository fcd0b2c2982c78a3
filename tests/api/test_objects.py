"""Objects: written, read whole and in ranges, described, deleted, under conditions."""
import base64
import datetime
import hashlib
import random

import botocore.exceptions
import pytest
from test_buckets import error_code

SIZES = [0, 1, 4095, 4096, 4097, 16384, 16385, 262143, 262144, 262145, 1 << 20, (4 << 20) + 1, 20_000_000]


def some_bytes(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize("size", SIZES)
def test_an_object_comes_back_as_it_went_in(s3, bucket, size):
    data = some_bytes(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == data
    assert (got["ContentLength"], got["ETag"]) == (size, put["ETag"])
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentLength"], head["ETag"]) == (size, put["ETag"])
    age = datetime.datetime.now(datetime.timezone.utc) - head["LastModified"]
    assert abs(age.total_seconds()) < 600


@pytest.mark.parametrize("key", ["plain", "a/b/c", "with space", "plus+and%25", "käse/日本/🚀", "a//b", "/lead",
                                 "trail/", "&<>'\"", "?#[]@!$'()*,;=:", ".", "..", "a/../b", "x" * 1024])
def test_keys_of_every_form(s3, bucket, key):
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]


def test_a_key_of_1025_bytes_is_too_long(s3, bucket):
    assert error_code(s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"") == (400, "KeyTooLongError")


def test_metadata_is_kept(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentType="text/plain", CacheControl="no-cache",
                  ContentDisposition="attachment", ContentEncoding="gzip", ContentLanguage="de",
                  Metadata={"colour": "blue", "empty": ""})
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ContentType"] == "text/plain"
    assert head["CacheControl"] == "no-cache"
    assert head["ContentDisposition"] == "attachment"
    assert head["ContentEncoding"] == "gzip"
    assert head["ContentLanguage"] == "de"
    assert head["Metadata"] == {"colour": "blue", "empty": ""}


def test_a_type_is_given_where_none_was(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert s3.head_object(Bucket=bucket, Key="k")["ContentType"] == "binary/octet-stream"


def test_user_metadata_has_a_limit(s3, bucket):
    assert error_code(s3.put_object, Bucket=bucket, Key="k", Body=b"x",
                      Metadata={"big": "y" * 2100}) == (400, "MetadataTooLarge")


@pytest.mark.parametrize("size", [1000, 700_000, 9_000_000])
@pytest.mark.parametrize("form", ["0-0", "5-99", "500-", "-100", "0-99999999999", "999-999"])
def test_ranges(s3, bucket, size, form):
    data = some_bytes(size)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={form}")
    first, _, last = form.partition("-")
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes {start}-{end - 1}/{size}"
    assert got["Body"].read() == data[start:end]


def test_ranges_that_cross_blocks_and_segments(s3, bucket):
    data = some_bytes(9_000_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    rng = random.Random(7)
    for _ in range(40):
        start = rng.randrange(len(data))
        end = min(len(data), start + rng.choice([1, 4096, 262144, 5_000_000]))
        got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={start}-{end - 1}")
        assert got["Body"].read() == data[start:end]


@pytest.mark.parametrize("form", ["bytes=1000-", "bytes=2000-3000", "bytes=-0"])
def test_a_range_outside_is_refused(s3, bucket, form):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    assert error_code(s3.get_object, Bucket=bucket, Key="k", Range=form) == (416, "InvalidRange")


@pytest.mark.parametrize("form", ["bytes=5-2", "lines=1-2", "bytes=a-b", "bytes=0-1,5-6"])
def test_a_range_that_is_none_gives_the_whole(s3, bucket, form):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    got = s3.get_object(Bucket=bucket, Key="k", Range=form)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert len(got["Body"].read()) == 1000


def test_delete_is_idempotent(s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.delete_object(Bucket=bucket, Key="k")
    s3.delete_object(Bucket=bucket, Key="k")
    assert error_code(s3.get_object, Bucket=bucket, Key="k") == (404, "NoSuchKey")
    assert error_code(s3.head_object, Bucket=bucket, Key="k")[0] == 404


def test_delete_objects_reports_each_key(s3, bucket):
    for i in range(5):
        s3.put_object(Bucket=bucket, Key=f"k{i}", Body=b"x")
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"k{i}"} for i in range(6)]})
    assert sorted(d["Key"] for d in done["Deleted"]) == [f"k{i}" for i in range(6)]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_an_overwrite_is_seen_at_once(s3, bucket):
    for size in (10, 100_000, 1_000_000, 5):
        data = some_bytes(size, size)
        s3.put_object(Bucket=bucket, Key="k", Body=data)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data


def test_a_reader_of_the_old_version_finishes_on_it(s3, bucket):
    old, new = some_bytes(30_000_000, 1), some_bytes(30_000_000, 2)
    s3.put_object(Bucket=bucket, Key="k", Body=old)
    body = s3.get_object(Bucket=bucket, Key="k")["Body"]
    start = body.read(1000)
    s3.put_object(Bucket=bucket, Key="k", Body=new)
    s3.delete_object(Bucket=bucket, Key="k")
    s3.put_object(Bucket=bucket, Key="other", Body=new)
    assert start + body.read() == old


def test_conditional_reads(s3, bucket):
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = datetime.timedelta(hours=1)
    s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)
    s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"other"')
    s3.get_object(Bucket=bucket, Key="k", IfModifiedSince=modified - hour)
    s3.get_object(Bucket=bucket, Key="k", IfUnmodifiedSince=modified + hour)
    s3.get_object(Bucket=bucket, Key="k", IfMatch=etag, IfUnmodifiedSince=modified - hour)
    assert error_code(s3.get_object, Bucket=bucket, Key="k", IfMatch='"other"') == (412, "PreconditionFailed")
    assert error_code(s3.get_object, Bucket=bucket, Key="k", IfUnmodifiedSince=modified - hour)[0] == 412
    assert error_code(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag)[0] == 304
    assert error_code(s3.get_object, Bucket=bucket, Key="k", IfModifiedSince=modified)[0] == 304
    assert error_code(s3.head_object, Bucket=bucket, Key="k", IfNoneMatch=etag)[0] == 304


def test_content_md5_is_checked(s3, bucket):
    good = base64.b64encode(hashlib.md5(b"hello").digest()).decode()
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello", ContentMD5=good)
    assert error_code(s3.put_object, Bucket=bucket, Key="k", Body=b"other",
                      ContentMD5=good) == (400, "BadDigest")
    assert error_code(s3.put_object, Bucket=bucket, Key="k", Body=b"hello",
                      ContentMD5="nonsense") == (400, "InvalidDigest")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"hello"


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_are_stored_and_shown(s3, bucket, algorithm):
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"hello", ChecksumAlgorithm=algorithm)
    field = f"Checksum{algorithm}"
    assert put[field]
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[field] == put[field]
    assert s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["Body"].read() == b"hello"
    assert error_code(s3.put_object, Bucket=bucket, Key="bad", Body=b"other",
                      **{field: put[field]}) == (400, "BadDigest")
    assert error_code(s3.head_object, Bucket=bucket, Key="bad")[0] == 404


def test_presigned_urls(s3, bucket, server):
    import urllib.request
    import urllib.error
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b"}, ExpiresIn=60)
    urllib.request.urlopen(urllib.request.Request(put, data=b"hello", method="PUT")).read()
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b"}, ExpiresIn=60)
    assert urllib.request.urlopen(get).read() == b"hello"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(get[:-1] + ("0" if get[-1] != "0" else "1"))
    assert caught.value.code == 403


def test_writes_only_if_absent_or_unchanged(server, bucket):
    import raw
    path = f"/{bucket}/k"
    assert raw.request(server, "PUT", path, headers={"If-None-Match": "*"}, body=b"one").status == 200
    answer = raw.request(server, "PUT", path, headers={"If-None-Match": "*"}, body=b"two")
    assert (answer.status, answer.code) == (412, "PreconditionFailed")
    etag = raw.request(server, "HEAD", path).headers["etag"]
    assert raw.request(server, "PUT", path, headers={"If-Match": etag}, body=b"three").status == 200
    answer = raw.request(server, "PUT", path, headers={"If-Match": etag}, body=b"four")
    assert (answer.status, answer.code) == (412, "PreconditionFailed")
    answer = raw.request(server, "PUT", f"/{bucket}/none", headers={"If-Match": etag}, body=b"five")
    assert (answer.status, answer.code) == (404, "NoSuchKey")
    assert raw.request(server, "GET", path).body == b"three"


def test_a_racing_create_has_one_winner(server, bucket):
    import concurrent.futures
    import raw
    for number in range(10):
        with concurrent.futures.ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(
                lambda i: raw.request(server, "PUT", f"/{bucket}/race-{number}",
                                      headers={"If-None-Match": "*"}, body=b"%d" % i), range(8)))
        assert sorted(a.status for a in answers) == [200] + [412] * 7
        winner = [i for i, a in enumerate(answers) if a.status == 200][0]
        assert raw.request(server, "GET", f"/{bucket}/race-{number}").body == b"%d" % winner


def test_request_ids_and_dates_are_everywhere(server, s3, bucket):
    import raw
    for answer in (raw.request(server, "GET", f"/{bucket}/none"), raw.request(server, "GET", "/"),
                   raw.request(server, "HEAD", f"/{bucket}")):
        assert answer.headers["x-amz-request-id"] and answer.headers["date"]
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        s3.get_object(Bucket=bucket, Key="none")
    assert caught.value.response["ResponseMetadata"]["RequestId"]
