"""SIGKILL at random while writers with known content run: nothing acknowledged is lost or torn.

Seeded: PENSTOCK_SEED replays the sequence of operations and the moments of the kills as far as the
machine's timing allows; the seed is printed with every failure. PENSTOCK_CRASH_ROUNDS asks for more."""
from __future__ import annotations

import concurrent.futures
import hashlib
import json
import os
import random
import threading
import time

import raw
import shm
from conftest import client_for
from server import Server

ROUNDS = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "20"))
SEED = int(os.environ["PENSTOCK_SEED"])  # conftest.py makes one up
SIZES = [0, 1, 100, 4096, 16384, 16385, 100_000, 262_144, 262_145, 1_500_000, 9_000_000]
PART = 5 << 20
WRITERS = 4
BUCKET = "crash-test"


def content(tag: str, size: int) -> bytes:
    """Bytes that say where they come from, so that a torn or swapped object cannot look right."""
    block = hashlib.sha256(tag.encode()).digest() * 32
    return (block * (size // len(block) + 1))[:size]


class Model:
    """What may be there. For each key: the last acknowledged state, and states that were under way
    when the server died, of which any one may have taken effect."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, str | None] = {}
        self.pending: dict[str, list[str | None]] = {}

    def begin(self, key: str, state: str | None) -> None:
        with self.lock:
            self.pending.setdefault(key, []).append(state)

    def acknowledge(self, key: str, state: str | None) -> None:
        with self.lock:
            self.known[key] = state
            self.pending[key] = []

    def allowed(self, key: str) -> set[str | None]:
        return {self.known.get(key), *self.pending.get(key, [])}

    def settle(self, key: str, state: str | None) -> None:
        self.known[key] = state
        self.pending[key] = []


def state_of(tag: str, size: int) -> str:
    return f"{tag}/{size}"


class Writer:
    """One writer: a boto3 client, and a region of registered memory for what goes one-sided."""

    def __init__(self, server: Server, model: Model, rng: random.Random, number: int) -> None:
        self.server, self.model, self.rng, self.number = server, model, rng, number
        self.s3 = client_for(server)
        self.region = shm.Session(server).register(max(SIZES))

    def put_one_sided(self, key: str, data: bytes, query: str = "") -> str:
        """Returns the ETag of the object or part."""
        self.region.memory[:len(data)] = data
        answer = shm.put(self.server, f"/{BUCKET}/{key}", self.region.token(0, len(data)), query=query)
        if answer is None:
            raise ConnectionError("the connection ended without an answer")
        assert answer.status in (200, 206), f"seed {SEED}: {answer}"
        return answer.headers["etag"]

    def put_multipart(self, key: str, data: bytes) -> None:
        upload = self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        parts = []
        for number, start in enumerate(range(0, len(data), PART), 1):
            piece = data[start:start + PART]
            if self.rng.random() < 0.5:
                etag = self.put_one_sided(key, piece, f"partNumber={number}&uploadId={upload}")
            else:
                etag = self.s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number,
                                           Body=piece)["ETag"]
            parts.append({"PartNumber": number, "ETag": etag})
        self.s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})

    def put(self, key: str, data: bytes) -> None:
        if len(data) > PART:
            self.put_multipart(key, data)
        elif data and self.rng.random() < 0.4:
            self.put_one_sided(key, data)
        else:
            self.s3.put_object(Bucket=BUCKET, Key=key, Body=data)

    def write(self, step: str) -> None:
        """One put, overwrite, multipart upload or delete of a key that only this writer uses."""
        key = f"w{self.number}/{self.rng.randrange(12)}"
        if self.rng.random() < 0.15:
            self.model.begin(key, None)
            self.s3.delete_object(Bucket=BUCKET, Key=key)
            self.model.acknowledge(key, None)
            return
        size, tag = self.rng.choice(SIZES), f"{self.number}-{step}-{key}"
        state = state_of(tag, size)
        self.model.begin(key, state)
        self.put(key, content(tag, size))
        self.model.acknowledge(key, state)


def write_until_death(server: Server, model: Model, writer: int, round_number: int, killed: threading.Event) -> int:
    """Acknowledged writes. A failure before the kill is one of the server."""
    rng = random.Random(f"{SEED}-{writer}-{round_number}")
    done = 0
    try:
        one = Writer(server, model, rng, writer)
        while True:
            one.write(f"{round_number}.{done}")
            done += 1
    except AssertionError:
        raise
    except Exception as error:  # a client that lost its server may fail in any way, after the kill
        if not killed.is_set():
            raise AssertionError(f"seed {SEED}: the living server failed a write: {error!r}") from error
        return done


def check_everything(server: Server, model: Model) -> None:
    s3 = client_for(server)
    listed = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for item in page.get("Contents", []):
            listed[item["Key"]] = item["Size"]
    for key in sorted({*model.known, *model.pending, *listed}):
        allowed = model.allowed(key)
        if key not in listed:
            assert None in allowed, f"seed {SEED}: {key} was acknowledged and is gone; allowed: {allowed}"
            model.settle(key, None)
            continue
        data = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert len(data) == listed[key], f"seed {SEED}: {key}: listed size differs"
        matching = [s for s in allowed if s is not None
                    and content(s.rsplit("/", 1)[0], int(s.rsplit("/", 1)[1])) == data]
        assert matching, f"seed {SEED}: {key} ({len(data)} bytes) is none of {allowed}"
        model.settle(key, matching[0])


def used_bytes(server: Server) -> int:
    """Space in use on the volume. What was deleted is given back once its last reader is gone: wait for that."""
    before = None
    for _ in range(100):
        used = json.loads(raw.request(server, "GET", "/.penstock/stats").body)["blob"]["used_bytes"]
        if used == before:
            return used
        before = used
        time.sleep(0.1)
    raise AssertionError("the space in use does not come to rest")


def delete_everything(server: Server) -> None:
    s3 = client_for(server)
    for upload in s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=BUCKET, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for item in page.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=item["Key"])
    s3.delete_bucket(Bucket=BUCKET)


def check_store(server: Server) -> None:
    checked = server.fsck()
    assert checked.returncode == 0, f"seed {SEED}: {checked.stdout}{checked.stderr}"


def run_and_kill(server: Server, model: Model, rng: random.Random, round_number: int) -> int:
    killed = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as threads:
        running = [threads.submit(write_until_death, server, model, writer, round_number, killed)
                   for writer in range(WRITERS)]
        time.sleep(rng.uniform(0.05, 0.8))
        killed.set()
        server.kill()
        return sum(future.result(timeout=120) for future in running)


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    rng = random.Random(SEED)
    server = Server(tmp_path / "data", memory="128MiB").start()
    empty = used_bytes(server)
    client_for(server).create_bucket(Bucket=BUCKET)
    model, writes = Model(), 0
    for round_number in range(ROUNDS):
        writes += run_and_kill(server, model, rng, round_number)
        if round_number % 4 == 3:
            check_store(server)
        server.start()
        check_everything(server, model)
    delete_everything(server)
    assert used_bytes(server) == empty, f"seed {SEED}: space was lost"
    assert server.stop() == 0
    check_store(server)
    assert writes > ROUNDS, f"seed {SEED}: only {writes} writes were acknowledged: the test shows nothing"
    print(f"{ROUNDS} kills, {writes} acknowledged writes")
