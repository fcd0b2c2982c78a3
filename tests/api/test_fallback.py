"""One-sided where it can be had, else HTTP: the client says which, and why."""
from __future__ import annotations

import http.server
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

import pytest
import raw
import shm
from server import ACCESS_KEY, PENSTOCK, ROOT, SECRET_KEY, Server

sys.path.insert(0, str(ROOT / "tools"))
from libpenstock import VIA_AUTO, VIA_HTTP, VIA_ONE_SIDED, Client  # noqa: E402

MIB = 1 << 20
LIBRARY = pathlib.Path(PENSTOCK).parent.parent / "client/libpenstock.so"
BODY = random.Random(8).randbytes(300_001)


class OtherStore(http.server.ThreadingHTTPServer):
    """An S3 endpoint that has never heard of us: it keeps objects, wants signatures, and refuses a POST
    to /.penstock/shm as what it takes it for."""

    def __init__(self, refusal: tuple[int, str], introduction: dict | None = None) -> None:
        super().__init__(("127.0.0.1", 0), OtherStoreRequest)
        self.refusal, self.introduction = refusal, introduction
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.tokens = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def penstock(self, *arguments: str) -> subprocess.CompletedProcess:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PENSTOCK_"))}
        keys = {"PENSTOCK_ACCESS_KEY": ACCESS_KEY, "PENSTOCK_SECRET_KEY": SECRET_KEY, "PENSTOCK_ENDPOINT": self.url}
        return subprocess.run([str(PENSTOCK), *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env=clean | keys)


class OtherStoreRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: OtherStore

    def log_message(self, *arguments) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode())

    def handle_s3(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path))
        self.server.tokens += "x-amz-rdma-token" in self.headers
        if not self.headers.get("Authorization", "").startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/"):
            self.refuse(403, "AccessDenied")
        elif self.command == "POST" and self.server.introduction:
            self.answer(200, json.dumps(self.server.introduction).encode())
        elif self.command == "POST":
            self.refuse(*self.server.refusal)
        elif self.command == "PUT":
            self.server.objects[self.path] = body
            self.answer(200, ETag='"e"')
        elif self.path not in self.server.objects:
            self.refuse(404, "NoSuchKey")
        else:
            self.send_object(self.server.objects[self.path])

    def send_object(self, data: bytes) -> None:
        wanted = self.headers.get("Range")
        if not wanted or self.command == "HEAD":
            self.answer(200, data, ETag='"e"')
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = data[int(first):int(last or len(data)) + 1]
        end = int(first) + len(part) - 1
        self.answer(206, part, ETag='"e"', Content_Range=f"bytes {first}-{end}/{len(data)}")

    do_GET = do_PUT = do_HEAD = do_POST = handle_s3


@pytest.fixture(params=[(404, "NoSuchBucket"), (403, "AccessDenied"), (405, "MethodNotAllowed")],
                ids=lambda refusal: refusal[1])
def other_store(request):
    with OtherStore(request.param) as store:
        yield store
        store.shutdown()


@pytest.fixture
def unreachable():
    """It offers a transfer, but neither of its sockets is to be found from here: as in another container."""
    told = {"socket": "/nonexistent/penstock.sock", "abstract": "penstock-nobody", "ticket": "0" * 32}
    with OtherStore((404, "NoSuchBucket"), told) as store:
        yield store
        store.shutdown()


def test_another_store_is_spoken_to_over_http_and_the_reason_is_told(other_store, tmp_path):
    (tmp_path / "up").write_bytes(BODY)
    put = other_store.penstock("put", str(tmp_path / "up"), "bucket/key")
    got = other_store.penstock("get", "bucket/key", str(tmp_path / "down"))
    reason = f"http; not one-sided: the endpoint offers no same-host transfer ({other_store.refusal[1]})"
    for done in (put, got):
        assert (done.returncode, reason in done.stdout) == (0, True), done.stdout + done.stderr
    assert other_store.objects["/bucket/key"] == BODY
    assert (tmp_path / "down").read_bytes() == BODY
    assert other_store.tokens == 0


@pytest.mark.parametrize("arguments", [("get", "bucket/key", "{file}"), ("put", "{file}", "bucket/new")],
                         ids=["get", "put"])
def test_one_sided_or_nothing(other_store, tmp_path, arguments):
    other_store.objects["/bucket/key"] = BODY
    file = tmp_path / "file"
    if arguments[0] == "put":
        file.write_bytes(BODY)
    command, *rest = (argument.format(file=file) for argument in arguments)
    done = other_store.penstock(command, "--via", "one-sided", *rest)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert f"offers no same-host transfer ({other_store.refusal[1]})" in done.stderr
    assert not {"GET", "PUT"} & {method for method, _ in other_store.requests}
    assert file.exists() == (command == "put")


def test_the_library_falls_back_and_asks_the_other_store_once_only(other_store):
    client = Client(LIBRARY, other_store.url, ACCESS_KEY, SECRET_KEY, MIB)
    other_store.objects["/bucket/key"] = BODY
    for _ in range(3):
        assert client.get("bucket", "key", VIA_AUTO) == BODY
        assert (client.result.via, client.result.transfer) == (VIA_HTTP, b"http")
        assert f"({other_store.refusal[1]})" in client.result.fallback_reason.decode()
    client.memory[:5] = b"hello"
    client.put("bucket", "new", 5, VIA_AUTO)
    assert (client.result.via, other_store.objects["/bucket/new"]) == (VIA_HTTP, b"hello")
    assert [path for method, path in other_store.requests if method == "POST"] == ["/.penstock/shm"]
    with pytest.raises(RuntimeError, match="offers no same-host transfer"):
        client.get("bucket", "key", VIA_ONE_SIDED)
    client.close()


def test_sockets_that_cannot_be_reached(unreachable, tmp_path):
    unreachable.objects["/bucket/key"] = BODY
    done = unreachable.penstock("get", "bucket/key", str(tmp_path / "file"))
    assert done.returncode == 0, done.stderr
    assert "http; not one-sided: no way to the server's transfer socket" in done.stdout
    assert (tmp_path / "file").read_bytes() == BODY


@pytest.fixture
def restartable(own_server):
    """A server that is found where it was: a client that lives on has only its address."""
    own_server.start().options.extend(["--listen", f"127.0.0.1:{own_server.port}"])
    return own_server


@pytest.mark.parametrize("end", [Server.stop, Server.kill], ids=["SIGTERM", "SIGKILL"])
def test_a_client_outlives_its_server(restartable, end):
    data = random.Random(3).randbytes(MIB)
    raw.request(restartable, "PUT", "/kept-bucket")
    client = Client(LIBRARY, restartable.url, ACCESS_KEY, SECRET_KEY, MIB)
    client.memory[:] = data
    client.put("kept-bucket", "k", MIB, VIA_ONE_SIDED)
    for _ in range(2):
        end(restartable)
        restartable.start()
        assert stats(restartable)["transfer"]["regions"] == 0
        client.memory[:] = bytes(MIB)
        assert client.get("kept-bucket", "k", VIA_ONE_SIDED) == data
        assert (client.result.via, client.result.transfer) == (VIA_ONE_SIDED, b"shm")
        assert stats(restartable)["transfer"]["regions"] == 1
    client.close()
    assert restartable.stop() == 0


def stats(server: Server) -> dict:
    return json.loads(raw.request(server, "GET", "/.penstock/stats").body)


def wait_for(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def in_use(server: Server) -> dict[str, int]:
    """What requests hold: fibers, blocks that neither lie free nor in the cache, space on the volume. The
    request that asks is counted alike every time."""
    told = stats(server)
    pool, cached = told["pool"], told["cache"]["entries"]
    return {"fibers": told["runtime"]["fibers_alive"], "space": told["blob"]["used_bytes"],
            "large blocks": pool["blocks_256k_total"] - pool["blocks_256k_free"] - cached,
            "small blocks free": pool["blocks_4k_free"], "middle blocks free": pool["blocks_32k_free"]}


def at_rest(server: Server) -> dict[str, int]:
    """in_use() once the ends of earlier requests, on whatever core, have stopped changing it."""
    seen = [in_use(server)]

    def same() -> bool:
        seen.append(in_use(server))
        return len(seen) > 10 and all(one == seen[-1] for one in seen[-10:])
    wait_for(same)
    return seen[-1]


def begin_one_sided(server: Server, method: str, path: str, token: str) -> socket.socket:
    head = raw.sign(server, method, path, headers={"x-amz-rdma-token": token, "Content-Length": "0"})
    sock = raw.connect(server)
    sock.sendall(raw.serialise(method, path, head))
    return sock


def cut_short(server: Server, method: str, path: str, region: shm.Region, idle: dict[str, int]) -> bool:
    """Hang up once the counters show that bytes are moving, and wait until nothing of the request is left.
    False when the transfer was through before the server heard of it: then it has to be tried again."""
    counter = {"GET": "bytes_pushed", "PUT": "bytes_pulled"}[method]
    before = stats(server)["transfer"][counter]
    with begin_one_sided(server, method, path, region.token()):
        wait_for(lambda: stats(server)["transfer"][counter] > before)
    wait_for(lambda: stats(server)["runtime"]["fibers_alive"] == idle["fibers"])
    return stats(server)["transfer"][counter] - before < len(region.memory)


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_client_that_hangs_up_ends_its_transfer(own_server, method):
    """On a server of its own, whose counters tell of nothing else, and with less memory than the object has,
    so that the drive takes part."""
    server = own_server.start()
    session, path = shm.Session(server), "/large-bucket/new"
    region = session.register(256 * MIB)
    region.memory[:MIB] = BODY[:300_000].ljust(MIB, b".")
    raw.request(server, "PUT", "/large-bucket")
    assert shm.put(server, "/large-bucket/big", region.token()).status == 200
    idle = at_rest(server)

    def attempt() -> bool:
        if method == "GET":
            return cut_short(server, method, "/large-bucket/big", region, idle)
        raw.request(server, "DELETE", path)  # of an attempt that was through
        return cut_short(server, method, path, region, idle)
    wait_for(attempt)
    assert raw.request(server, "HEAD", path).status == 404  # nothing of a PUT is stored
    wait_for(lambda: in_use(server) == idle)
    expected = region.memory[:]
    region.memory[:] = bytes(len(expected))
    assert shm.get(server, "/large-bucket/big", region.token()).status == 200
    assert region.memory[:] == expected
    session.close()
    wait_for(lambda: stats(server)["transfer"]["regions"] == 0)
    assert server.stop() == 0
    assert server.fsck().returncode == 0


def test_clients_that_hang_up_at_once(server, s3, bucket):
    """The request is sent and its connection reset: the transfer may be anywhere, or not begun."""
    s3.put_object(Bucket=bucket, Key="big", Body=b"x" * (16 * MIB))
    session = shm.Session(server)
    region = session.register(16 * MIB)
    before = stats(server)
    for number in range(20):
        method, key = ("GET", "big") if number % 2 else ("PUT", "new")
        sock = begin_one_sided(server, method, f"/{bucket}/{key}", region.token())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    wait_for(lambda: stats(server)["runtime"]["fibers_alive"] <= before["runtime"]["fibers_alive"])
    session.close()
    wait_for(lambda: stats(server)["transfer"]["regions"] == before["transfer"]["regions"] - 1)
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == b"x" * (16 * MIB)
