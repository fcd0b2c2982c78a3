"""How the client library speaks HTTP, against servers that a script plays byte for byte."""
from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import ssl
import subprocess
import threading

import pytest
from server import PENSTOCK

KEYS = {"PENSTOCK_ACCESS_KEY": "SCRIPTEDACCESSKEY001", "PENSTOCK_SECRET_KEY": "not checked by a script"}
BODY = b"what the object holds" * 1000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: \"e\"\r\n\r\n" % len(BODY)
GET = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-%d/%d\r\nETag: \"e\"\r\n" % (len(BODY) - 1, len(BODY))
SIZED = GET + b"Content-Length: %d\r\n\r\n" % len(BODY)


def refusal(status: bytes, code: bytes, close: bool = True) -> bytes:
    xml = b"<Error><Code>%s</Code><Message>A scripted refusal.</Message></Error>" % code
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n" % (
        status, len(xml), b"Connection: close\r\n" if close else b"") + xml


class Script:
    """Serves connections in threads. `answer(method, number)` gives the bytes for the number-th request
    and whether the connection then ends; the body of a request is read first unless `eager`."""

    def __init__(self, answer, eager: bool = False, tls: ssl.SSLContext | None = None) -> None:
        self.answer, self.eager, self.tls, self.methods = answer, eager, tls, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            with sock, sock.makefile("rb") as file:
                while line := file.readline():
                    headers = {}
                    while (field := file.readline()) not in (b"\r\n", b""):
                        name, _, value = field.partition(b":")
                        headers[name.lower()] = value.strip()
                    if not self.eager:
                        file.read(int(headers.get(b"content-length", 0)))
                    method = line.split()[0].decode()
                    self.methods.append(method)
                    data, ends = self.answer(method, len(self.methods))
                    sock.sendall(data)
                    if ends:
                        sock.shutdown(socket.SHUT_WR)
                        return

    def penstock(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PENSTOCK_", "SSL_"))}
        return subprocess.run([str(PENSTOCK), *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env=clean | KEYS | {"PENSTOCK_ENDPOINT": self.url} | environment)

    def get(self, folder: pathlib.Path, **environment: str) -> subprocess.CompletedProcess:
        return self.penstock("get", "--via", "http", "bucket/key", str(folder / "file"), **environment)


def by_method(get: bytes, ends: bool = False):
    return lambda method, number: (HEAD, False) if method == "HEAD" else (get, ends)


@pytest.mark.parametrize("framing", ["sized", "chunked", "until the end", "after interim answers"])
def test_every_framing_of_an_answer(tmp_path, framing):
    chunks = b"".join(b"%x\r\n" % len(BODY[i:i + 999]) + BODY[i:i + 999] + b"\r\n" for i in range(0, len(BODY), 999))
    answers = {"sized": SIZED + BODY,
               "chunked": GET + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n",
               "until the end": GET + b"\r\n" + BODY,
               "after interim answers": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
                                        + SIZED + BODY}
    done = Script(by_method(answers[framing], framing == "until the end")).get(tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_bytes() == BODY


@pytest.mark.parametrize("answer, says", [
    (SIZED + BODY[:-1], "ended before the answer did"),
    (SIZED[:40], "ended before the answer did"),
    (b"", "ended before the answer did"),
    (GET + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
    (b"220 mail.example ESMTP\r\n", "not HTTP"),
    (GET + b"Content-Length: 99999999\r\n\r\n" + BODY, "more than"),
    (refusal(b"403 Forbidden", b"AccessDenied"), "AccessDenied"),
    (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", "HTTP status 500"),
])
def test_a_broken_answer_is_an_error_in_one_line_and_leaves_no_file(tmp_path, answer, says):
    done = Script(by_method(answer, True)).get(tmp_path)
    assert done.returncode == 1
    assert says in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_before_the_body_was_sent_is_what_is_reported(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * (15 << 20))  # one request, more than any socket buffer holds
    script = Script(lambda method, number: (refusal(b"403 Forbidden", b"AccessDenied"), True), eager=True)
    done = script.penstock("put", "--via", "http", str(tmp_path / "large"), "bucket/key")
    assert (done.returncode, "AccessDenied" in done.stderr) == (1, True), done.stderr


def test_a_connection_that_went_stale_is_replaced_once(tmp_path):
    # Every answer promises keep-alive, and the connection ends all the same.
    script = Script(lambda method, number: (HEAD if method == "HEAD" else SIZED + BODY, True))
    done = script.get(tmp_path)
    assert done.returncode == 0, done.stderr
    assert script.methods == ["HEAD", "GET"]


def test_an_endpoint_where_nobody_listens(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        script = Script(by_method(b""))
        done = script.get(tmp_path, PENSTOCK_ENDPOINT=f"http://127.0.0.1:{unused.getsockname()[1]}")
    assert (done.returncode, "Connection refused" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "ftp://host", "http://", "http://host:port", "http://host:",
                                      "http://host/path", "http://[::1", "http://[::1]x"])
def test_endpoints_that_are_none(tmp_path, endpoint):
    done = Script(by_method(b"")).get(tmp_path, PENSTOCK_ENDPOINT=endpoint)
    assert (done.returncode, "http://host:port" in done.stderr) == (1, True), done.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert),
                    "-days", "2", "-subj", "/CN=penstock-test", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


def test_https_with_a_trusted_certificate(tmp_path, certificate):
    context, cert = certificate
    done = Script(by_method(SIZED + BODY), tls=context).get(tmp_path, SSL_CERT_FILE=str(cert))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file").read_bytes() == BODY


def test_https_with_a_certificate_that_nobody_vouches_for(tmp_path, certificate):
    done = Script(by_method(SIZED + BODY), tls=certificate[0]).get(tmp_path)
    assert (done.returncode, "self-signed certificate" in done.stderr) == (1, True), done.stderr


def test_https_with_the_certificate_of_another_host(tmp_path, certificate):
    context, cert = certificate
    script = Script(by_method(SIZED + BODY), tls=context)
    done = script.get(tmp_path, SSL_CERT_FILE=str(cert),
                      PENSTOCK_ENDPOINT=script.url.replace("127.0.0.1", "localhost"))
    assert (done.returncode, "hostname mismatch" in done.stderr) == (1, True), done.stderr
