"""Who may ask, and what a signature must cover."""
import base64
import hashlib
import zlib

import pytest
import raw

ZEROS = "0" * 64


def test_nothing_is_anonymous(server):
    answer = raw.exchange(server, raw.serialise("GET", "/", {"Host": "x"}))
    assert (answer.status, answer.code) == (403, "AccessDenied")


@pytest.mark.parametrize("change,expected", [
    ({"secret": "wrong"}, "SignatureDoesNotMatch"),
    ({"access": "NOSUCHKEY"}, "InvalidAccessKeyId"),
    ({"region": "eu-west-1"}, "AuthorizationHeaderMalformed"),
    ({"date": raw.stamp(-16 * 60)}, "RequestTimeTooSkewed"),
    ({"date": raw.stamp(16 * 60)}, "RequestTimeTooSkewed"),
])
def test_wrong_signatures(server, change, expected):
    answer = raw.request(server, "GET", "/", **change)
    assert answer.code == expected
    assert answer.status == (400 if expected == "AuthorizationHeaderMalformed" else 403)


def test_fourteen_minutes_of_skew_are_allowed(server):
    assert raw.request(server, "GET", "/", date=raw.stamp(-14 * 60)).status == 200
    assert raw.request(server, "GET", "/", date=raw.stamp(14 * 60)).status == 200


def test_an_unsigned_amz_header_is_refused(server, bucket):
    answer = raw.request(server, "PUT", f"/{bucket}/k", body=b"x", unsigned_headers={"x-amz-meta-a": "b"})
    assert (answer.status, answer.code) == (403, "AccessDenied")


def test_a_changed_query_or_method_breaks_the_signature(server, bucket):
    headers = raw.sign(server, "GET", f"/{bucket}", "list-type=2&prefix=a")
    answer = raw.exchange(server, raw.serialise("GET", f"/{bucket}?list-type=2&prefix=b", headers))
    assert answer.code == "SignatureDoesNotMatch"
    answer = raw.exchange(server, raw.serialise("DELETE", f"/{bucket}?list-type=2&prefix=a", headers))
    assert answer.code == "SignatureDoesNotMatch"


def test_the_hash_of_the_body_is_checked(server, bucket):
    right = hashlib.sha256(b"hello").hexdigest()
    path = f"/{bucket}/k"
    assert raw.request(server, "PUT", path, body=b"hello", payload=right).status == 200
    answer = raw.request(server, "PUT", path, body=b"other", payload=right)
    assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
    assert raw.request(server, "GET", path).body == b"hello"


def test_presigned_expiry(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    host = {"Host": server.url.split("//")[1]}

    def get(target):
        return raw.exchange(server, raw.serialise("GET", target, host))
    assert get(raw.presign(server, "GET", f"/{bucket}/k")).body == b"hello"
    old = get(raw.presign(server, "GET", f"/{bucket}/k", expires=60, date=raw.stamp(-120)))
    assert (old.status, old.code) == (403, "AccessDenied")
    assert get(raw.presign(server, "GET", f"/{bucket}/k", expires=0, date=raw.stamp(-2))).code == "AccessDenied"
    for wrong in (604801, -5):
        assert get(raw.presign(server, "GET", f"/{bucket}/k", expires=wrong)).code == \
            "AuthorizationQueryParametersError"


def chunk_signature(key: bytes, date: str, previous: str, data: bytes) -> str:
    empty = hashlib.sha256(b"").hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256-PAYLOAD", date, f"{date[:8]}/us-east-1/s3/aws4_request", previous, empty,
                      hashlib.sha256(data).hexdigest()])
    return raw.hmac_sha256(key, text).hex()


def signed_chunks(server, path, chunks, damage=None, trailer=None):
    """An aws-chunked PUT; damage(i, data) may change what is sent after signing."""
    date, total = raw.stamp(), sum(len(c) for c in chunks)
    payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailer else "")
    extra = {"Content-Encoding": "aws-chunked", "x-amz-decoded-content-length": str(total)}
    if trailer:
        extra["x-amz-trailer"] = trailer[0]
    headers = raw.sign(server, "PUT", path, headers=extra, payload=payload, date=date)
    key, previous, body = raw.signing_key(date), headers["Authorization"].rsplit("Signature=", 1)[1], b""
    for number, data in enumerate([*chunks, b""]):
        previous = chunk_signature(key, date, previous, data)
        sent = damage(number, data) if damage else data
        body += f"{len(sent):x};chunk-signature={previous}\r\n".encode() + sent
        body += b"\r\n" if sent or not trailer else b""
    if trailer:
        line = f"{trailer[0]}:{trailer[1]}\n"
        text = "\n".join(["AWS4-HMAC-SHA256-TRAILER", date, f"{date[:8]}/us-east-1/s3/aws4_request", previous,
                          hashlib.sha256(line.encode()).hexdigest()])
        body += f"{trailer[0]}:{trailer[1]}\r\nx-amz-trailer-signature:".encode()
        body += raw.hmac_sha256(key, text).hex().encode() + b"\r\n\r\n"
    headers["Content-Length"] = str(len(body))
    return raw.exchange(server, raw.serialise("PUT", path, headers, body), "PUT")


def test_signed_chunks(server, bucket):
    chunks = [b"a" * 65536, b"b" * 8192, b"c" * 300_000, b"d"]
    path = f"/{bucket}/k"
    assert signed_chunks(server, path, chunks).status == 200
    got = raw.request(server, "GET", path)
    assert got.body == b"".join(chunks)
    assert "aws-chunked" not in got.headers.get("content-encoding", "")


def test_a_damaged_chunk_stores_nothing(server, bucket):
    answer = signed_chunks(server, f"/{bucket}/k", [b"a" * 65536, b"b" * 8192],
                           damage=lambda i, data: data[:-1] + b"X" if i == 1 else data)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")
    assert raw.request(server, "GET", f"/{bucket}/k").code == "NoSuchKey"


def test_signed_chunks_with_a_signed_trailer(server, bucket):
    data = b"hello" * 1000
    crc = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
    assert signed_chunks(server, f"/{bucket}/k", [data], trailer=("x-amz-checksum-crc32", crc)).status == 200
    answer = signed_chunks(server, f"/{bucket}/bad", [data], trailer=("x-amz-checksum-crc32", "AAAAAA=="))
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert raw.request(server, "GET", f"/{bucket}/bad").code == "NoSuchKey"


def unsigned_trailer(server, path, http_chunked, crc, data=b"hello", cut=None):
    """What current SDKs send over TLS: an unsigned aws-chunked body, perhaps inside HTTP chunks."""
    headers = raw.sign(server, "PUT", path, payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                       headers={"Content-Encoding": "aws-chunked", "x-amz-trailer": "x-amz-checksum-crc32",
                                **({} if http_chunked else {"x-amz-decoded-content-length": str(len(data))})})
    chunk = f"{len(data):x}\r\n".encode() + data + b"\r\n" if data else b""
    body = chunk + f"0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n".encode()
    if http_chunked:
        headers["Transfer-Encoding"] = "chunked"
        pieces = [body[i:i + (cut or 7)] for i in range(0, len(body), cut or 7)]
        body = b"".join(f"{len(p):x}\r\n".encode() + p + b"\r\n" for p in pieces) + b"0\r\n\r\n"
    else:
        headers["Content-Length"] = str(len(body))
    return raw.exchange(server, raw.serialise("PUT", path, headers, body), "PUT")


@pytest.mark.parametrize("http_chunked", [False, True])
@pytest.mark.parametrize("size", [0, 5, 300_000])
def test_unsigned_chunks_with_a_trailer(server, bucket, http_chunked, size):
    data = b"x" * size
    crc = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
    path = f"/{bucket}/k"
    assert unsigned_trailer(server, path, http_chunked, crc, data, cut=100_000).status == 200
    assert raw.request(server, "GET", path).body == data
    bad = unsigned_trailer(server, f"/{bucket}/bad", http_chunked, "AAAAAQ==", data, cut=1000)
    assert (bad.status, bad.code) == (400, "BadDigest")
    assert raw.request(server, "GET", f"/{bucket}/bad").code == "NoSuchKey"


def test_every_cut_of_the_double_framing(server, bucket):
    crc = base64.b64encode(zlib.crc32(b"hello").to_bytes(4, "big")).decode()
    for cut in range(1, 48):
        assert unsigned_trailer(server, f"/{bucket}/k", True, crc, cut=cut).status == 200
    assert raw.request(server, "GET", f"/{bucket}/k").body == b"hello"


def test_a_body_that_the_signature_says_nothing_of(server, bucket):
    """curl 7.88 signs uploads like this: without x-amz-content-sha256, as if the body were empty."""
    empty, date, path = hashlib.sha256(b"").hexdigest(), raw.stamp(), f"/{bucket}/k"
    headers = {"Host": server.url.split("//")[1], "x-amz-date": date}

    def send(method: str, body: bytes) -> raw.Answer:
        value, names = raw.signature(method, path, "", headers, empty, date)
        credential = f"{raw.ACCESS_KEY}/{date[:8]}/us-east-1/s3/aws4_request"
        authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={value}"
        full = headers | {"Authorization": authorization, "Content-Length": str(len(body))}
        return raw.exchange(server, raw.serialise(method, path, full, body), method)
    assert send("PUT", b"").status == 200
    assert send("GET", b"").status == 200
    refused = send("PUT", b"body")
    assert (refused.status, refused.code) == (400, "InvalidRequest")
    assert b"x-amz-content-sha256" in refused.body
