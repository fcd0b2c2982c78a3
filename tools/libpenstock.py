"""libpenstock by ctypes: as much of include/penstock.h as the demo and the tests need."""
from __future__ import annotations

import ctypes
import pathlib

VIA_AUTO, VIA_HTTP, VIA_ONE_SIDED = range(3)


class Options(ctypes.Structure):
    _fields_ = [("endpoint", ctypes.c_char_p), ("access_key", ctypes.c_char_p), ("secret_key", ctypes.c_char_p),
                ("region", ctypes.c_char_p), ("via", ctypes.c_int), ("timeout_ms", ctypes.c_uint),
                ("parallel", ctypes.c_uint), ("part_size", ctypes.c_uint64)]


class Result(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("code", ctypes.c_char * 64), ("message", ctypes.c_char * 256),
                ("request_id", ctypes.c_char * 64), ("etag", ctypes.c_char * 72), ("bytes", ctypes.c_uint64),
                ("size", ctypes.c_uint64), ("via", ctypes.c_int), ("transfer", ctypes.c_char * 16),
                ("fallback_reason", ctypes.c_char * 160)]


class Client:
    """A client with one registered buffer of `size` bytes; objects are read into it and written from it."""

    def __init__(self, library: pathlib.Path, endpoint: str, access_key: str, secret_key: str, size: int) -> None:
        self.lib = ctypes.CDLL(str(library))
        self.lib.ps_buffer_data.restype = ctypes.c_void_p
        self.result, self.handle, self.buffer = Result(), ctypes.c_void_p(), ctypes.c_void_p()
        options = Options(endpoint.encode(), access_key.encode(), secret_key.encode())
        self.check(self.lib.ps_open(ctypes.byref(options), ctypes.byref(self.handle), ctypes.byref(self.result)))
        self.check(self.lib.ps_buffer_alloc(self.handle, ctypes.c_uint64(size), ctypes.byref(self.buffer),
                                            ctypes.byref(self.result)))
        data = self.lib.ps_buffer_data(self.buffer)
        self.memory = memoryview((ctypes.c_char * size).from_address(data)).cast("B")

    def check(self, err: int) -> None:
        if err:
            raise RuntimeError(f"{self.result.code.decode()} {self.result.message.decode()}")

    def get(self, bucket: str, key: str, via: int) -> memoryview:
        """The object's bytes, in the registered buffer: good until the next get. `result` says which way they came."""
        self.check(self.lib.ps_get(self.handle, bucket.encode(), key.encode(), ctypes.c_uint64(0), ctypes.c_uint64(0),
                                   self.buffer, ctypes.c_uint64(0), via, ctypes.byref(self.result)))
        return self.memory[:self.result.bytes]

    def put(self, bucket: str, key: str, size: int, via: int) -> None:
        """The first `size` bytes of the buffer become the object."""
        self.check(self.lib.ps_put(self.handle, bucket.encode(), key.encode(), self.buffer, ctypes.c_uint64(0),
                                   ctypes.c_uint64(size), via, ctypes.byref(self.result)))

    def close(self) -> None:
        self.memory.release()
        self.lib.ps_buffer_free(ctypes.byref(self.buffer))
        self.lib.ps_close(ctypes.byref(self.handle))
