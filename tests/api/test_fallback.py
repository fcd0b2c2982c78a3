"""One-sided where it can be had, else HTTP: the client says which, and why."""
from __future__ import annotations

import json
import pathlib
import random
import socket
import sys
import time

import pytest
import raw
import shm
from server import ACCESS_KEY, PENSTOCK, ROOT, SECRET_KEY, Server
from test_client_transport import BODY, HEAD, SIZED, Script, refusal

sys.path.insert(0, str(ROOT / "tools"))
from libpenstock import Client  # noqa: E402

MIB = 1 << 20


def other_store(method: str, number: int) -> tuple[bytes, bool]:
    """An S3 endpoint that has never heard of us: POST is a browser's form to it."""
    if method == "POST":
        return refusal(b"405 Method Not Allowed", b"MethodNotAllowed", close=False), False
    if method == "PUT":
        return b"HTTP/1.1 200 OK\r\nETag: \"e\"\r\nContent-Length: 0\r\n\r\n", False
    return (HEAD, False) if method == "HEAD" else (SIZED + BODY, False)


def test_another_store_is_spoken_to_over_http_and_the_reason_is_told(tmp_path):
    script = Script(other_store)
    (tmp_path / "up").write_bytes(BODY)
    put = script.penstock("put", str(tmp_path / "up"), "bucket/key")
    got = script.penstock("get", "bucket/key", str(tmp_path / "file"))
    for done in (put, got):
        assert done.returncode == 0, done.stderr
        assert "http; not one-sided: the endpoint offers no same-host transfer (MethodNotAllowed)" in done.stdout
    assert (tmp_path / "file").read_bytes() == BODY


def test_one_sided_or_nothing(tmp_path):
    script = Script(other_store)
    done = script.penstock("get", "--via", "one-sided", "bucket/key", str(tmp_path / "file"))
    assert (done.returncode, "offers no same-host transfer" in done.stderr) == (1, True), done.stderr
    assert "GET" not in script.methods and list(tmp_path.iterdir()) == []


def test_sockets_that_cannot_be_reached(tmp_path):
    told = json.dumps({"socket": str(tmp_path / "none.sock"), "abstract": "penstock-nobody", "ticket": "0" * 32})

    def answer(method: str, number: int) -> tuple[bytes, bool]:
        if method != "POST":
            return other_store(method, number)
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(told) + told.encode(), False
    done = Script(answer).penstock("get", "bucket/key", str(tmp_path / "file"))
    assert done.returncode == 0, done.stderr
    assert "not one-sided: no way to the server's transfer socket" in done.stdout


@pytest.fixture
def restartable(tmp_path):
    with socket.socket() as probe:  # a client that lives on must find the server where it was
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Server(tmp_path / "data", "--listen", f"127.0.0.1:{port}", memory="128MiB").start()
    yield server
    assert server.stop() == 0


def test_a_client_outlives_its_server(restartable):
    data = random.Random(3).randbytes(MIB)
    raw.request(restartable, "PUT", "/kept-bucket")
    raw.request(restartable, "PUT", "/kept-bucket/k", body=data)
    library = pathlib.Path(PENSTOCK).parent.parent / "client/libpenstock.so"
    client = Client(library, restartable.url, ACCESS_KEY, SECRET_KEY, MIB)
    assert client.get("kept-bucket", "k") == data
    assert restartable.stop() == 0
    restartable.start()
    assert client.get("kept-bucket", "k") == data  # one-sided again, or it would have failed
    client.close()


def stats(server: Server) -> dict:
    return json.loads(raw.request(server, "GET", "/.penstock/stats").body)


def wait_for(condition) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def test_a_client_that_hangs_up_costs_nothing_that_stays(server, s3, bucket):
    """The request is sent and its connection reset at once, for as many GETs and PUTs as take some time."""
    s3.put_object(Bucket=bucket, Key="big", Body=b"x" * (64 * MIB))
    session = shm.Session(server)
    region = session.register(64 * MIB)
    before = stats(server)
    for number in range(20):
        method, path = ("GET", f"/{bucket}/big") if number % 2 else ("PUT", f"/{bucket}/new")
        head = raw.sign(server, method, path, headers={"x-amz-rdma-token": region.token(), "Content-Length": "0"})
        sock = raw.connect(server)
        sock.sendall(raw.serialise(method, path, head))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    wait_for(lambda: stats(server)["runtime"]["fibers_alive"] <= before["runtime"]["fibers_alive"])
    session.close()
    wait_for(lambda: stats(server)["transfer"]["regions"] == before["transfer"]["regions"] - 1)
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == b"x" * (64 * MIB)
