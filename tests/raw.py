"""Requests below boto3: signed by hand, sent byte for byte. For what SDKs never send."""
from __future__ import annotations

import dataclasses
import datetime
import hashlib
import hmac
import socket
import urllib.parse

from server import ACCESS_KEY, SECRET_KEY, Server

UNSIGNED = "UNSIGNED-PAYLOAD"
REGION = "us-east-1"


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The S3 error code in the body, or ''."""
        text = self.body.decode("utf-8", "replace")
        return text.split("<Code>", 1)[1].split("</Code>", 1)[0] if "<Code>" in text else ""


def stamp(offset_s: int = 0) -> str:
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=offset_s)
    return now.strftime("%Y%m%dT%H%M%SZ")


def hmac_sha256(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signing_key(date: str, secret: str = SECRET_KEY, region: str = REGION, service: str = "s3") -> bytes:
    key = hmac_sha256(b"AWS4" + secret.encode(), date[:8])
    for part in (region, service, "aws4_request"):
        key = hmac_sha256(key, part)
    return key


def canonical_query(query: str) -> str:
    pairs = []
    for item in query.split("&") if query else []:
        name, _, value = item.partition("=")
        pairs.append((urllib.parse.quote(urllib.parse.unquote(name), safe="-_.~"),
                      urllib.parse.quote(urllib.parse.unquote(value), safe="-_.~")))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def signature(method: str, path: str, query: str, headers: dict[str, str], payload: str, date: str,
              secret: str = SECRET_KEY, region: str = REGION) -> tuple[str, str]:
    """The signature and the list of signed headers; every header given is signed."""
    lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    names = ";".join(sorted(lower))
    request = "\n".join([method, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"),
                         canonical_query(query), *[f"{n}:{lower[n]}" for n in sorted(lower)], "", names, payload])
    scope = f"{date[:8]}/{region}/s3/aws4_request"
    to_sign = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
    return hmac_sha256(signing_key(date, secret, region), to_sign).hex(), names


def sign(server: Server, method: str, path: str, query: str = "", headers: dict[str, str] | None = None,
         payload: str = UNSIGNED, date: str | None = None, access: str = ACCESS_KEY, secret: str = SECRET_KEY,
         region: str = REGION) -> dict[str, str]:
    """All headers of a signed request, Authorization included."""
    date = date or stamp()
    full = {"Host": server.url.split("//")[1], "x-amz-date": date, "x-amz-content-sha256": payload,
            **(headers or {})}
    value, names = signature(method, path, query, full, payload, date, secret, region)
    full["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={access}/{date[:8]}/{region}/s3/aws4_request, "
                             f"SignedHeaders={names}, Signature={value}")
    return full


def presign(server: Server, method: str, path: str, expires: int = 60, date: str | None = None) -> str:
    """The path and query of a presigned URL."""
    date = date or stamp()
    credential = urllib.parse.quote(f"{ACCESS_KEY}/{date[:8]}/{REGION}/s3/aws4_request", safe="")
    query = (f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={date}"
             f"&X-Amz-Expires={expires}&X-Amz-SignedHeaders=host")
    value, _ = signature(method, path, query, {"Host": server.url.split("//")[1]}, UNSIGNED, date)
    return f"{path}?{query}&X-Amz-Signature={value}"


def connect(server: Server, timeout: float = 20) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout)


def read_answer(file, method: str = "GET") -> Answer | None:
    """One response; interim ones are skipped. None when the server closed without answering."""
    while True:
        line = file.readline()
        if not line:
            return None
        status, headers = int(line.split()[1]), {}
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if status >= 200:
            break
    body = b""
    if method != "HEAD" and status not in (204, 304):
        body = file.read(int(headers.get("content-length", 0)))
    return Answer(status, headers, body)


def exchange(server: Server, data: bytes, method: str = "GET", timeout: float = 20) -> Answer | None:
    """Send bytes on a fresh connection and read one answer."""
    with connect(server, timeout) as sock:
        sock.sendall(data)
        with sock.makefile("rb") as file:
            return read_answer(file, method)


def serialise(method: str, target: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def request(server: Server, method: str, path: str, query: str = "", headers: dict[str, str] | None = None,
            body: bytes = b"", unsigned_headers: dict[str, str] | None = None, **signing) -> Answer | None:
    """A signed request with a plain body. unsigned_headers are added after signing."""
    full = sign(server, method, path, query, headers, **signing) | (unsigned_headers or {})
    if (body or method in ("PUT", "POST")) and not any(
            name.lower() in ("content-length", "transfer-encoding") for name in full):
        full["Content-Length"] = str(len(body))
    target = path + (f"?{query}" if query else "")
    return exchange(server, serialise(method, target, full, body), method)
