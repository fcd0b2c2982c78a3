"""HTTP as it arrives from the world: framing, limits, vanishing clients."""
import time

import pytest
import raw
from conftest import client_for
from server import Server


def put_head(server, path, extra):
    headers = raw.sign(server, "PUT", path) | extra
    return raw.serialise("PUT", path, headers)


@pytest.mark.parametrize("lines", [
    "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    "Content-Length: 3\r\nContent-Length: 3\r\n",
    "Content-Length: +3\r\n", "Content-Length: -3\r\n", "Content-Length: 0x3\r\n", "Content-Length: 3,3\r\n",
    "Content-Length: 99999999999999999999999\r\n", "X-A: b\r\n folded\r\n", "X-A: b\rX-B: c\r\n",
    "X A: b\r\n", "X-A : b\r\n", "X-A: \0b\r\n",
])
def test_ambiguous_framing_is_refused(server, lines):
    answer = raw.exchange(server, f"PUT /b/k HTTP/1.1\r\nHost: x\r\n{lines}\r\nabc".encode("latin-1"))
    assert answer.status == 400


def test_other_transfer_encodings_are_refused(server):
    for value in ("gzip", "chunked, gzip", "xchunked", "chunked, chunked"):
        data = f"PUT /b/k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {value}\r\n\r\n0\r\n\r\n"
        assert raw.exchange(server, data.encode()).status in (400, 501)


def test_limits_of_the_head(server):
    big = b"GET / HTTP/1.1\r\nHost: x\r\nX-Big: " + b"a" * 70_000 + b"\r\n\r\n"
    assert raw.exchange(server, big).status == 431
    many = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(200)) + b"\r\n"
    assert raw.exchange(server, many).status == 431
    assert raw.exchange(server, b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n").status == 414


def test_pipelined_requests_are_answered_in_order(server, s3, bucket):
    for i in range(20):
        s3.put_object(Bucket=bucket, Key=f"k{i}", Body=b"%d" % i)
    data = b"".join(raw.serialise("GET", f"/{bucket}/k{i}", raw.sign(server, "GET", f"/{bucket}/k{i}"))
                    for i in range(20))
    with raw.connect(server) as sock:
        sock.sendall(data)
        with sock.makefile("rb") as file:
            assert [raw.read_answer(file).body for _ in range(20)] == [b"%d" % i for i in range(20)]


def test_expect_100_continue(server, bucket):
    path = f"/{bucket}/k"
    with raw.connect(server) as sock:
        sock.sendall(put_head(server, path, {"Content-Length": "5", "Expect": "100-continue"}))
        assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
        sock.sendall(b"hello")
        with sock.makefile("rb") as file:
            assert raw.read_answer(file).status == 200
    with raw.connect(server) as sock:  # refused before the body: no 100
        bad = raw.sign(server, "PUT", path, secret="wrong") | {"Content-Length": "5", "Expect": "100-continue"}
        sock.sendall(raw.serialise("PUT", path, bad))
        assert sock.recv(100).startswith(b"HTTP/1.1 403 ")


def test_a_head_request_has_no_body(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 1000)
    head = raw.serialise("HEAD", f"/{bucket}/k", raw.sign(server, "HEAD", f"/{bucket}/k"))
    get = raw.serialise("GET", f"/{bucket}/k", raw.sign(server, "GET", f"/{bucket}/k"))
    with raw.connect(server) as sock:
        sock.sendall(head + get)
        with sock.makefile("rb") as file:
            first = raw.read_answer(file, "HEAD")
            assert (first.status, first.headers["content-length"]) == (200, "1000")
            assert raw.read_answer(file).body == b"x" * 1000


def test_clients_that_vanish_in_a_body_store_nothing(server, s3, bucket):
    for sent in (0, 1, 1000, 300_000, 900_000):
        with raw.connect(server) as sock:
            sock.sendall(put_head(server, f"/{bucket}/k", {"Content-Length": "1000000"}) + b"x" * sent)
    time.sleep(0.2)
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_a_body_that_is_cut_short_is_an_error(server, bucket):
    import socket
    with raw.connect(server) as sock:
        sock.sendall(put_head(server, f"/{bucket}/k", {"Content-Length": "10"}) + b"short")
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as file:
            answer = raw.read_answer(file)
    assert answer is None or (answer.status, answer.code) == (400, "IncompleteBody")
    assert raw.request(server, "GET", f"/{bucket}/k").code == "NoSuchKey"


def test_clients_that_stop_reading_do_not_stop_others(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 30_000_000)
    request = raw.serialise("GET", f"/{bucket}/k", raw.sign(server, "GET", f"/{bucket}/k"))
    stuck = [raw.connect(server) for _ in range(20)]
    for sock in stuck:
        sock.sendall(request)
    assert len(s3.get_object(Bucket=bucket, Key="k")["Body"].read()) == 30_000_000
    for sock in stuck:
        sock.close()
    assert len(s3.get_object(Bucket=bucket, Key="k")["Body"].read()) == 30_000_000


def test_a_put_without_length_is_refused(server, bucket):
    path = f"/{bucket}/k"
    answer = raw.exchange(server, raw.serialise("PUT", path, raw.sign(server, "PUT", path)))
    assert (answer.status, answer.code) == (411, "MissingContentLength")


def test_more_than_5_gib_in_one_put_is_refused(server, bucket):
    answer = raw.exchange(server, put_head(server, f"/{bucket}/k", {"Content-Length": str((5 << 30) + 1)}))
    assert (answer.status, answer.code) == (400, "EntityTooLarge")


def test_a_full_store_refuses_and_loses_nothing(tmp_path):
    full = Server(tmp_path / "data", "--capacity", "64MiB").start()
    s3, kept = client_for(full), {}
    s3.create_bucket(Bucket="full-store")
    refused = None
    for i in range(40):
        body = bytes([i]) * 4_000_000
        try:
            s3.put_object(Bucket="full-store", Key=f"k{i}", Body=body)
            kept[f"k{i}"] = body
        except s3.exceptions.ClientError as error:
            refused = error.response
            break
    assert refused["ResponseMetadata"]["HTTPStatusCode"] == 507
    assert len(kept) >= 10
    for key, body in kept.items():
        assert s3.get_object(Bucket="full-store", Key=key)["Body"].read() == body
    s3.delete_object(Bucket="full-store", Key="k0")
    s3.put_object(Bucket="full-store", Key="again", Body=b"y" * 4_000_000)
    assert full.stop() == 0
    assert full.fsck().returncode == 0


def test_idle_connections_are_cheap(tmp_path):
    """10,000 connections are held open, each after a request, while others are served."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(10_000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 500), hard))
    server = Server(tmp_path / "data").start()
    s3 = client_for(server)
    s3.create_bucket(Bucket="idle")
    s3.put_object(Bucket="idle", Key="k", Body=b"x")

    def resident() -> int:
        with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096
    data = raw.serialise("GET", "/idle/k", raw.sign(server, "GET", "/idle/k"))
    held = []
    try:
        for _ in range(200):
            raw.exchange(server, data)
        before = resident()
        for _ in range(count):
            sock = raw.connect(server)
            sock.sendall(data)
            held.append(sock)
            assert b"200 OK" in sock.recv(4096)
        each = (resident() - before) / count
        assert raw.exchange(server, data).body == b"x"
        for sock in held[:: count // 50]:
            sock.sendall(data)
            assert b"200 OK" in sock.recv(4096)
        assert each <= 8192, f"{each:.0f} bytes for each idle connection"
    finally:
        for sock in held:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert server.stop() == 0
