"""The main job on real input: upload files with an unmodified S3 client, read them back over HTTP and
by one-sided transfer, before and after a restart, and compare every byte by SHA-256."""
from __future__ import annotations

import hashlib
import itertools
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

import boto3
import boto3.s3.transfer
import botocore.config

from libpenstock import VIA_ONE_SIDED, Client

MIB = 1 << 20
LARGE_BYTES = 256 * MIB
SMALL_TOTAL = 192 * MIB
BUCKET = "demo"
TERMINAL = sys.stdout.isatty()


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def progress(done: int, total: int, label: str) -> None:
    if TERMINAL:
        print(f"\r  {label}: {done * 100 // max(total, 1):3d}% of {total // MIB} MiB\033[K",
              end="\n" if done >= total else "", flush=True)


def sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


def shared_libraries() -> list[pathlib.Path]:
    """Real files of this machine, small and large, each once."""
    found, seen, total = [], set(), 0
    for folder in ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib"):
        for path in sorted(pathlib.Path(folder).glob("*.so*")):
            real = path.resolve()
            if real.name in seen or not real.is_file():
                continue
            size = real.stat().st_size
            if size == 0 or total + size > SMALL_TOTAL:
                continue
            seen.add(real.name)
            found.append(real)
            total += size
    return found


def make_input(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Key -> file: the libraries as they are, and one large file put together from them."""
    libraries = shared_libraries()
    if not libraries:
        sys.exit("demo: this machine has no shared libraries to upload")
    large = folder / "large.bin"
    with large.open("wb") as out:
        for library in itertools.cycle(libraries):
            out.write(library.read_bytes())
            if out.tell() >= LARGE_BYTES:
                break
    return {f"lib/{path.name}": path for path in libraries} | {"large.bin": large}


def largest(files: dict[str, pathlib.Path]) -> int:
    return max(path.stat().st_size for path in files.values())


class Server:
    def __init__(self, binary: str, data: pathlib.Path) -> None:
        self.binary, self.data = binary, data
        self.keys = {"PENSTOCK_ACCESS_KEY": "DEMOACCESSKEY0000001",
                     "PENSTOCK_SECRET_KEY": os.urandom(20).hex()}
        self.process: subprocess.Popen | None = None
        self.url = ""

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.binary, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", "--log-level", "warn"],
            env=os.environ | self.keys, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if "ready http://" not in line:
            sys.exit("demo: the server did not start")
        self.url = line.split("ready ")[1].strip()
        say(f"the server is ready at {self.url}")

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process = None
        if code:
            sys.exit(f"demo: the server ended with exit code {code}")

    def cpu_s(self) -> float:
        ticks = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")

    def client(self):
        return boto3.client("s3", endpoint_url=self.url, region_name="us-east-1",
                            aws_access_key_id=self.keys["PENSTOCK_ACCESS_KEY"],
                            aws_secret_access_key=self.keys["PENSTOCK_SECRET_KEY"],
                            config=botocore.config.Config(s3={"addressing_style": "path"}))


def own_cpu_s() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


class Measured:
    """A row of the table: time and CPU of one way of moving all the files, of the moving alone."""

    rows: list["Measured"] = []

    def __init__(self, server: Server, label: str, files: dict[str, pathlib.Path]) -> None:
        self.server, self.label = server, label
        self.count, self.bytes = len(files), sum(p.stat().st_size for p in files.values())
        self.elapsed = self.client_cpu = self.server_cpu = 0.0
        Measured.rows.append(self)

    def __enter__(self) -> None:
        self.before = time.monotonic(), own_cpu_s(), self.server.cpu_s()

    def __exit__(self, kind, value, trace) -> None:
        after = time.monotonic(), own_cpu_s(), self.server.cpu_s()
        self.elapsed += after[0] - self.before[0]
        self.client_cpu += after[1] - self.before[1]
        self.server_cpu += after[2] - self.before[2]


def upload(server: Server, files: dict[str, pathlib.Path]) -> None:
    client = server.client()
    client.create_bucket(Bucket=BUCKET)
    parts = boto3.s3.transfer.TransferConfig(multipart_threshold=32 * MIB, multipart_chunksize=32 * MIB)
    row, done = Measured(server, "upload, boto3 over HTTP", files), 0
    with row:
        for key, path in files.items():
            client.upload_file(str(path), BUCKET, key, Config=parts)
            done += path.stat().st_size
            progress(done, row.bytes, row.label)


def check_listing(server: Server, files: dict[str, pathlib.Path]) -> None:
    listed = {}
    for page in server.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for item in page.get("Contents", []):
            listed[item["Key"]] = item["Size"]
    if listed != {key: path.stat().st_size for key, path in files.items()}:
        sys.exit("demo: the listing is not what was uploaded")
    say(f"the listing shows all {len(listed)} objects with their sizes")


def read_all(row: Measured, files: dict[str, pathlib.Path], wanted: dict[str, str], read) -> None:
    """Read every object into memory by read(key), and compare what came; the comparing is not timed."""
    done, wrong = 0, []
    for key in files:
        with row:
            data = read(key)
        if hashlib.sha256(data).hexdigest() != wanted[key]:
            wrong.append(key)
        done += len(data)
        progress(done, row.bytes, row.label)
    if wrong or done != row.bytes:
        sys.exit(f"demo: {row.label}: {len(wrong)} objects came back different: {wrong[:3]}")


def read_http(server: Server, files: dict[str, pathlib.Path], wanted: dict[str, str]) -> None:
    """Into one buffer that is there already, as with one-sided transfers."""
    client, memory = server.client(), memoryview(bytearray(largest(files)))

    def read(key: str) -> memoryview:
        body, done = client.get_object(Bucket=BUCKET, Key=key)["Body"], 0
        while chunk := body.read(MIB):
            memory[done:done + len(chunk)] = chunk
            done += len(chunk)
        return memory[:done]
    read_all(Measured(server, "read, boto3 over HTTP", files), files, wanted, read)


def read_one_sided(server: Server, files: dict[str, pathlib.Path], wanted: dict[str, str], label: str) -> None:
    """Into registered memory. The client is told to fail rather than to fall back to HTTP, and asked
    afterwards which way it took."""
    library = pathlib.Path(server.binary).resolve().parent.parent / "client/libpenstock.so"
    client = Client(library, server.url, server.keys["PENSTOCK_ACCESS_KEY"], server.keys["PENSTOCK_SECRET_KEY"],
                    largest(files))

    def read(key: str) -> memoryview:
        data, result = client.get(BUCKET, key, VIA_ONE_SIDED), client.result
        if (result.via, result.transfer) != (VIA_ONE_SIDED, b"shm"):
            sys.exit(f"demo: {key} went by {result.transfer.decode()}: {result.fallback_reason.decode()}")
        return data
    read_all(Measured(server, label, files), files, wanted, read)
    client.close()


def print_table() -> None:
    print(f"\n{'way':30} {'files':>6} {'bytes':>12} {'GB/s':>7} {'client CPU s/GB':>16} {'server CPU s/GB':>16}")
    for row in Measured.rows:
        gigabytes = row.bytes / 1e9
        print(f"{row.label:30} {row.count:6d} {row.bytes:12d} {gigabytes / row.elapsed:7.3f} "
              f"{row.client_cpu / gigabytes:16.3f} {row.server_cpu / gigabytes:16.3f}")


def run(server: Server, root: pathlib.Path) -> None:
    files = make_input(root)
    wanted = {key: sha256(path) for key, path in files.items()}
    say(f"{len(files)} files, {sum(p.stat().st_size for p in files.values()) / 1e6:.0f} MB, "
        f"the largest {(root / 'large.bin').stat().st_size / 1e6:.0f} MB")
    server.start()
    upload(server, files)
    check_listing(server, files)
    read_http(server, files, wanted)
    read_one_sided(server, files, wanted, "read, one-sided")
    say("stopping the server with SIGTERM and starting it again")
    server.stop()
    server.start()
    read_one_sided(server, files, wanted, "read after restart, one-sided")
    server.stop()
    print_table()
    say("every byte was equal, by SHA-256: over HTTP, one-sided, and one-sided after the restart")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        root = pathlib.Path(folder)
        server = Server(sys.argv[1], root / "data")
        try:
            run(server, root)
        finally:
            if server.process is not None:
                server.process.kill()
                server.process.wait()


if __name__ == "__main__":
    main()
