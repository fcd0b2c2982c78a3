"""ListObjectsV2 and multipart uploads against what a plain model says."""
import random
import hashlib

import pytest
from test_buckets import error_code
from test_objects import some_bytes

MIB = 1 << 20


def model(keys, prefix="", delimiter="", after=""):
    """What S3 lists: keys and common prefixes in byte order, after `after`."""
    out = []
    for key in sorted(keys, key=str.encode):
        if not key.startswith(prefix):
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key[:cut + len(delimiter)] if cut >= 0 else key
        if name.encode() > after.encode() and name not in out:
            out.append(name)
    return out


def listed(s3, bucket, **arguments):
    pages, token = [], None
    while True:
        extra = {"ContinuationToken": token} if token else {}
        page = s3.list_objects_v2(Bucket=bucket, **arguments, **extra)
        names = [o["Key"] for o in page.get("Contents", [])]
        names += [p["Prefix"] for p in page.get("CommonPrefixes", [])]
        assert page["KeyCount"] == len(names)
        pages.append(sorted(names, key=str.encode))
        if not page["IsTruncated"]:
            return pages
        token = page["NextContinuationToken"]


@pytest.fixture(scope="module")
def tree(s3):
    name, rng = "listing-tree", random.Random(3)
    s3.create_bucket(Bucket=name)
    keys = {"/".join(rng.choice(["a", "b", "a b", "ä", "日", "z+", "&<x>"]) for _ in range(rng.randint(1, 4)))
            for _ in range(150)}
    for key in keys:
        s3.put_object(Bucket=name, Key=key, Body=b"")
    yield name, keys
    s3.delete_objects(Bucket=name, Delete={"Objects": [{"Key": k} for k in keys]})
    s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("prefix,delimiter", [("", ""), ("", "/"), ("a", "/"), ("a/", "/"), ("ä", ""),
                                              ("a/b", "b/"), ("zzz", "/")])
def test_pages_together_are_the_model(s3, tree, prefix, delimiter, size):
    name, keys = tree
    arguments = {"Prefix": prefix, "MaxKeys": size}
    if delimiter:
        arguments["Delimiter"] = delimiter
    pages = listed(s3, name, **arguments)
    assert sum(pages, []) == model(keys, prefix, delimiter)
    assert all(len(page) == size for page in pages[:-1])


def test_start_after(s3, tree):
    name, keys = tree
    for after in ("a", "a/b", "nothing", "zzz", "ä"):
        assert sum(listed(s3, name, StartAfter=after), []) == model(keys, after=after)


def test_max_keys_0_is_an_empty_page(s3, tree):
    page = s3.list_objects_v2(Bucket=tree[0], MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)


def test_encoding_type_url(server, s3, bucket):
    import raw
    s3.put_object(Bucket=bucket, Key="a b/ü&", Body=b"")
    text = raw.request(server, "GET", f"/{bucket}", "encoding-type=url&list-type=2").body.decode()
    assert "<Key>a%20b/%C3%BC%26</Key>" in text or "<Key>a+b/%C3%BC%26</Key>" in text


@pytest.mark.parametrize("query", ["list-type=2&max-keys=-1", "list-type=2&max-keys=x",
                                   "list-type=2&continuation-token=%21%21", "list-type=2&encoding-type=x"])
def test_wrong_list_arguments(server, bucket, query):
    import raw
    answer = raw.request(server, "GET", f"/{bucket}", query)
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def upload_parts(s3, bucket, key, sizes):
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, ContentType="x/y", Metadata={"m": "1"})["UploadId"]
    parts = []
    for number, size in enumerate(sizes, 1):
        data = some_bytes(size, number)
        etag = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=data)["ETag"]
        assert etag == f'"{hashlib.md5(data).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": etag})
    return upload, parts


def test_a_multipart_upload_becomes_one_object(s3, bucket):
    sizes = [5 * MIB, 6 * MIB + 17, 3]
    upload, parts = upload_parts(s3, bucket, "k", sizes)
    listing = s3.list_parts(Bucket=bucket, Key="k", UploadId=upload)
    assert [(p["PartNumber"], p["Size"], p["ETag"]) for p in listing["Parts"]] == [
        (p["PartNumber"], size, p["ETag"]) for p, size in zip(parts, sizes)]
    assert [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
    assert error_code(s3.head_object, Bucket=bucket, Key="k")[0] == 404
    done = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    digests = b"".join(bytes.fromhex(p["ETag"].strip('"')) for p in parts)
    assert done["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    whole = b"".join(some_bytes(size, number) for number, size in enumerate(sizes, 1))
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == whole
    assert (got["ContentType"], got["Metadata"]) == ("x/y", {"m": "1"})
    middle = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={5 * MIB - 10}-{5 * MIB + 9}")["Body"].read()
    assert middle == whole[5 * MIB - 10:5 * MIB + 10]
    part = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert part["Body"].read() == some_bytes(sizes[1], 2)
    assert part["PartsCount"] == 3
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    # Completing again (a client that lost the answer) gives the same answer.
    again = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    assert again["ETag"] == done["ETag"]


def test_a_part_may_be_replaced_and_left_out(s3, bucket):
    upload, parts = upload_parts(s3, bucket, "k", [5 * MIB, 5 * MIB, 10])
    new = some_bytes(5 * MIB, 99)
    parts[0]["ETag"] = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=1, Body=new)["ETag"]
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload,
                                 MultipartUpload={"Parts": [parts[0], parts[2]]})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == new + some_bytes(10, 3)


def test_wrong_completions_are_refused_and_lose_nothing(s3, bucket):
    upload, parts = upload_parts(s3, bucket, "k", [5 * MIB, 10, 10])
    complete = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    wrong = [dict(parts[0], ETag='"0123456789abcdef0123456789abcdef"')]
    assert error_code(s3.complete_multipart_upload, **complete,
                      MultipartUpload={"Parts": wrong}) == (400, "InvalidPart")
    assert error_code(s3.complete_multipart_upload, **complete,
                      MultipartUpload={"Parts": [parts[1], parts[0]]}) == (400, "InvalidPartOrder")
    assert error_code(s3.complete_multipart_upload, **complete,
                      MultipartUpload={"Parts": parts}) == (400, "EntityTooSmall")
    assert error_code(s3.complete_multipart_upload, **complete,
                      MultipartUpload={"Parts": [{"PartNumber": 9, "ETag": parts[0]["ETag"]}]}) == (400, "InvalidPart")
    s3.complete_multipart_upload(**complete, MultipartUpload={"Parts": parts[:2]})


def test_an_aborted_upload_is_gone(s3, bucket):
    upload, parts = upload_parts(s3, bucket, "k", [5 * MIB])
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=upload)
    for call, extra in ((s3.list_parts, {}), (s3.abort_multipart_upload, {}),
                        (s3.upload_part, {"PartNumber": 1, "Body": b"x"}),
                        (s3.complete_multipart_upload, {"MultipartUpload": {"Parts": parts}})):
        assert error_code(call, Bucket=bucket, Key="k", UploadId=upload, **extra) == (404, "NoSuchUpload")


@pytest.mark.parametrize("number", [0, 10001, -1])
def test_part_numbers_have_bounds(server, s3, bucket, number):
    import raw
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    answer = raw.request(server, "PUT", f"/{bucket}/k", f"partNumber={number}&uploadId={upload}", body=b"x")
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_uploads_are_listed_in_pages(s3, bucket):
    keys = ["a/1", "a/2", "b", "b", "c/x"]
    made = sorted((key, s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]) for key in keys)
    seen, markers = [], {}
    while True:
        page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=2, **markers)
        seen += [(u["Key"], u["UploadId"]) for u in page.get("Uploads", [])]
        if not page["IsTruncated"]:
            break
        markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    assert sorted(seen) == made and [k for k, _ in seen] == keys
    grouped = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [p["Prefix"] for p in grouped["CommonPrefixes"]] == ["a/", "c/"]


def test_freed_space_is_used_again(server, s3, bucket):
    """Overwriting one object for long must not make the volume grow with every turn."""
    data = some_bytes(20_000_000)
    for _ in range(5):
        s3.put_object(Bucket=bucket, Key="k", Body=data)
    before = (server.data / "volume0").stat().st_size
    for _ in range(20):
        s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert (server.data / "volume0").stat().st_size == before
