"""SIGKILL at random while writers with known content run: nothing acknowledged is lost or torn.

Seeded: PENSTOCK_SEED replays the sequence of operations and the moments of the kills as far as the
machine's timing allows; the seed is printed with every failure. PENSTOCK_CRASH_ROUNDS asks for more."""
from __future__ import annotations

import concurrent.futures
import hashlib
import os
import random
import threading
import time

import botocore.exceptions
import urllib3.exceptions

from conftest import client_for
from server import Server

ROUNDS = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "20"))
SEED = int(os.environ.get("PENSTOCK_SEED", str(random.SystemRandom().randrange(1 << 32))))
SIZES = [0, 1, 100, 4096, 16384, 16385, 100_000, 262_144, 262_145, 1_500_000, 9_000_000]
PART = 5 << 20
WRITERS = 4
BUCKET = "crash-test"
GONE = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError, urllib3.exceptions.HTTPError,
        ConnectionError)


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


def put_multipart(s3, key: str, data: bytes) -> None:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    parts = []
    for number, start in enumerate(range(0, len(data), PART), 1):
        part = s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number,
                              Body=data[start:start + PART])
        parts.append({"PartNumber": number, "ETag": part["ETag"]})
    s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})


def one_write(s3, server: Server, model: Model, rng: random.Random, writer: int, step: str) -> None:
    """One put, overwrite, multipart, one-sided put or delete of a key that only this writer uses."""
    key = f"w{writer}/{rng.randrange(12)}"
    if rng.random() < 0.15:
        model.begin(key, None)
        s3.delete_object(Bucket=BUCKET, Key=key)
        model.acknowledge(key, None)
        return
    size, tag = rng.choice(SIZES), f"{writer}-{step}-{key}"
    state = state_of(tag, size)
    data = content(tag, size)
    model.begin(key, state)
    if size > PART:
        put_multipart(s3, key, data)
    else:
        s3.put_object(Bucket=BUCKET, Key=key, Body=data)
    model.acknowledge(key, state)


def write_until_death(server: Server, model: Model, seed: int, writer: int, round_number: int) -> int:
    s3 = client_for(server)
    rng = random.Random(f"{seed}-{writer}-{round_number}")
    done = 0
    while True:
        try:
            one_write(s3, server, model, rng, writer, f"{round_number}.{done}")
        except GONE as error:
            if server.alive():
                raise AssertionError(f"seed {SEED}: the living server failed a write: {error}") from error
            return done
        done += 1


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


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path):
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    server = Server(tmp_path / "data", memory="128MiB").start()
    client_for(server).create_bucket(Bucket=BUCKET)
    model, writes = Model(), 0
    for round_number in range(ROUNDS):
        with concurrent.futures.ThreadPoolExecutor(WRITERS) as threads:
            running = [threads.submit(write_until_death, server, model, SEED, writer, round_number)
                       for writer in range(WRITERS)]
            time.sleep(rng.uniform(0.05, 0.8))
            server.process.kill()
            server.process.wait(60)
            writes += sum(future.result(timeout=120) for future in running)
        server.kill()
        if round_number % 4 == 3:
            checked = server.fsck()
            assert checked.returncode == 0, f"seed {SEED}: {checked.stdout}{checked.stderr}"
        server.start()
        check_everything(server, model)
    assert server.stop() == 0
    checked = server.fsck()
    assert checked.returncode == 0, f"seed {SEED}: {checked.stdout}{checked.stderr}"
    assert writes > ROUNDS, f"seed {SEED}: only {writes} writes were acknowledged: the test shows nothing"
