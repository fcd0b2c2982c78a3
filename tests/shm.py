"""The same-host transfer protocol from the client's side, in Python: what docs/protocol.md says, and
whatever a hostile client might do instead."""
from __future__ import annotations

import fcntl
import json
import mmap
import os
import socket
import struct

import raw
from server import Server

HELLO, WELCOME, REGISTER, REGISTERED, UNREGISTER, UNREGISTERED, ERROR = range(1, 8)
MESSAGE = struct.Struct("<IHHQQ96sQ")
MAGIC, VERSION = 0x6D687350, 1
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Refused(Exception):
    """The server answered ERROR or closed the socket."""


def introduce(server: Server, **signing) -> dict:
    answer = raw.request(server, "POST", "/.penstock/shm", **signing)
    if answer is None:
        raise ConnectionError("the connection ended without an answer")
    assert answer.status == 200, answer
    return json.loads(answer.body)


def memfd(size: int, seals: int = SEALS) -> int:
    fd = os.memfd_create("penstock-test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if size:
        os.posix_fallocate(fd, 0, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


class Session:
    """A connection to the transfer socket, introduced with a ticket."""

    def __init__(self, server: Server, ticket: bytes | None = None) -> None:
        self.server = server
        told = introduce(server)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(20)
        try:
            self.sock.connect(told["socket"] or "\0" + told["abstract"])
        except OSError:
            self.sock.connect("\0" + told["abstract"])
        self.ticket = bytes.fromhex(told["ticket"]) if ticket is None else ticket
        self.send(HELLO, text=self.ticket)
        self.id = self.receive(WELCOME)

    def send(self, kind: int, value: int = 0, text: bytes = b"", fds: tuple[int, ...] = (), version=VERSION) -> None:
        data = MESSAGE.pack(MAGIC, version, kind, value, 0, text, 0)
        if fds:
            socket.send_fds(self.sock, [data], list(fds))
        else:
            self.sock.sendall(data)

    def receive(self, wanted: int) -> int:
        data = b""
        while len(data) < MESSAGE.size:
            piece = self.sock.recv(MESSAGE.size - len(data))
            if not piece:
                raise Refused("closed")
            data += piece
        _, _, kind, value, _, text, _ = MESSAGE.unpack(data)
        if kind == ERROR:
            raise Refused(text.split(b"\0")[0].decode())
        assert kind == wanted
        return value

    def register_fd(self, fd: int, length: int) -> int:
        self.send(REGISTER, length, fds=(fd,))
        return self.receive(REGISTERED)

    def register(self, size: int) -> "Region":
        fd = memfd(size)
        return Region(self, self.register_fd(fd, size), mmap.mmap(fd, size))

    def close(self) -> None:
        self.sock.close()


class Region:
    def __init__(self, session: Session, number: int, memory: mmap.mmap) -> None:
        self.session, self.id, self.memory = session, number, memory

    def token(self, offset: int = 0, length: int | None = None) -> str:
        length = len(self.memory) - offset if length is None else length
        return f"shm1:{self.session.id:016x}:{self.id:016x}:{offset:016x}:{length:016x}"

    def unregister(self) -> None:
        self.session.send(UNREGISTER, self.id)
        self.session.receive(UNREGISTERED)


def get(server: Server, path: str, token: str, headers: dict[str, str] | None = None, **signing) -> raw.Answer:
    return raw.request(server, "GET", path, headers={"x-amz-rdma-token": token, **(headers or {})}, **signing)


def put(server: Server, path: str, token: str, headers: dict[str, str] | None = None, query: str = "",
        **signing) -> raw.Answer:
    return raw.request(server, "PUT", path, query, headers={"x-amz-rdma-token": token, **(headers or {})}, **signing)
