"""SIGKILL at random while writers with known content run: nothing acknowledged is lost or torn.

Seeded: PENSTOCK_SEED replays the sequence of operations and the moments of the kills as far as the
machine's timing allows; the seed is in pytest's header and in every failure. PENSTOCK_CRASH_ROUNDS asks for more."""
from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import itertools
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
    when the server died, of which any one may have taken effect. A state is written once only, so
    its ETag, once seen, stays."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.known: dict[str, str | None] = {}
        self.pending: dict[str, list[str | None]] = {}
        self.etags: dict[str, str] = {}
        self.done: collections.Counter[str] = collections.Counter()

    def begin(self, key: str, state: str | None) -> None:
        with self.lock:
            self.pending.setdefault(key, []).append(state)

    def acknowledge(self, key: str, state: str | None, etag: str = "") -> None:
        with self.lock:
            self.settle(key, state)
            if state is not None:
                self.etags[state] = etag

    def count(self, what: str) -> None:
        with self.lock:
            self.done[what] += 1

    def allowed(self, key: str) -> set[str | None]:
        return {self.known.get(key), *self.pending.get(key, [])}

    def settle(self, key: str, state: str | None) -> None:
        self.known[key] = state
        self.pending[key] = []


def state_of(tag: str, size: int) -> str:
    return f"{tag}/{size}"


def content_of(state: str) -> bytes:
    tag, _, size = state.rpartition("/")
    return content(tag, int(size))


def answered(answer: raw.Answer | None, *wanted: int) -> raw.Answer:
    if answer is None:
        raise ConnectionError("the connection ended without an answer")
    assert answer.status in wanted, f"seed {SEED}: {answer}"
    return answer


class Writer:
    """One writer: a boto3 client, and a region of registered memory for what goes one-sided. Its keys
    are its own, so while the server lives it knows what each of them is."""

    def __init__(self, server: Server, model: Model, rng: random.Random, number: int) -> None:
        self.server, self.model, self.rng, self.number = server, model, rng, number
        self.s3 = client_for(server)
        self.region = shm.Session(server).register(max(SIZES))

    def put_one_sided(self, key: str, data: bytes, headers: dict[str, str] | None = None,
                      query: str = "") -> raw.Answer | None:
        self.region.memory[:len(data)] = data
        return shm.put(self.server, f"/{BUCKET}/{key}", self.region.token(0, len(data)), headers, query)

    def put_part(self, key: str, upload: str, number: int, piece: bytes) -> dict:
        if self.rng.random() < 0.5:
            put = self.put_one_sided(key, piece, query=f"partNumber={number}&uploadId={upload}")
            etag = answered(put, 200).headers["etag"]
            self.model.count("one-sided part")
        else:
            etag = self.s3.upload_part(Bucket=BUCKET, Key=key, UploadId=upload, PartNumber=number, Body=piece)["ETag"]
        return {"PartNumber": number, "ETag": etag}

    def put_multipart(self, key: str, data: bytes) -> str:
        upload = self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        parts = [self.put_part(key, upload, number, data[start:start + PART])
                 for number, start in enumerate(range(0, len(data), PART), 1)]
        done = self.s3.complete_multipart_upload(Bucket=BUCKET, Key=key, UploadId=upload,
                                                 MultipartUpload={"Parts": parts})
        self.model.count("multipart upload")
        return done["ETag"]

    def put_anyhow(self, key: str, data: bytes) -> str:
        """Returns the ETag."""
        if data and self.rng.random() < 0.4:
            etag = answered(self.put_one_sided(key, data), 200).headers["etag"]
            self.model.count("one-sided put" if len(data) <= PART else "large one-sided put")
            return etag
        if len(data) > PART:
            return self.put_multipart(key, data)
        etag = self.s3.put_object(Bucket=BUCKET, Key=key, Body=data)["ETag"]
        self.model.count("put")
        return etag

    def put(self, key: str, state: str) -> None:
        self.model.begin(key, state)
        self.model.acknowledge(key, state, self.put_anyhow(key, content_of(state)))

    def put_if_absent(self, key: str, state: str) -> None:
        """If-None-Match: *. What must be refused is never begun: it may not show up after a kill either."""
        absent, data, headers = self.model.known.get(key) is None, content_of(state), {"If-None-Match": "*"}
        if absent:
            self.model.begin(key, state)
        if data and self.rng.random() < 0.5:
            answer = self.put_one_sided(key, data, headers)
        else:
            answer = raw.request(self.server, "PUT", f"/{BUCKET}/{key}", headers=headers, body=data)
        answer = answered(answer, 200 if absent else 412)
        if absent:
            self.model.acknowledge(key, state, answer.headers["etag"])
        self.model.count("if-absent put" if absent else "if-absent put refused")

    def delete(self, key: str) -> None:
        self.model.begin(key, None)
        self.s3.delete_object(Bucket=BUCKET, Key=key)
        self.model.acknowledge(key, None)
        self.model.count("delete")

    def head(self, key: str) -> None:
        state = self.model.known.get(key)
        answer = answered(raw.request(self.server, "HEAD", f"/{BUCKET}/{key}"), 404 if state is None else 200)
        if state is not None:
            told = answer.headers["etag"], int(answer.headers["content-length"])
            assert told == (self.model.etags[state], len(content_of(state))), f"seed {SEED}: {key}: HEAD told {told}"
        self.model.count("head" if state is not None else "head of nothing")

    def act(self, step: str) -> None:
        key = f"w{self.number}/{self.rng.randrange(12)}"
        state = state_of(f"{self.number}-{step}-{key}", self.rng.choice(SIZES))
        dice = self.rng.random()
        if dice < 0.15:
            self.delete(key)
        elif dice < 0.30:
            self.head(key)
        elif dice < 0.45:
            self.put_if_absent(key, state)
        else:
            self.put(key, state)


KINDS = {"one-sided part", "multipart upload", "one-sided put", "large one-sided put", "put", "if-absent put",
         "if-absent put refused", "delete", "head", "head of nothing"}


def write_until_death(server: Server, model: Model, writer: int, round_number: int, killed: threading.Event) -> None:
    """A failure before the kill is one of the server."""
    rng = random.Random(f"{SEED}-{writer}-{round_number}")
    try:
        one = Writer(server, model, rng, writer)
        for step in itertools.count():
            one.act(f"{round_number}.{step}")
    except AssertionError:
        raise
    except Exception as error:  # a client that lost its server may fail in any way, after the kill
        if not killed.is_set():
            raise AssertionError(f"seed {SEED}: the living server failed a write: {error!r}") from error


def check_object(s3, model: Model, key: str, listed: tuple[int, str]) -> None:
    """Its bytes are those of an allowed state, and size and ETag are told alike by listing, HEAD, GET and PUT."""
    got, head = s3.get_object(Bucket=BUCKET, Key=key), s3.head_object(Bucket=BUCKET, Key=key)
    data, allowed = got["Body"].read(), model.allowed(key)
    state = next((s for s in allowed if s is not None and content_of(s) == data), None)
    assert state, f"seed {SEED}: {key} ({len(data)} bytes) is none of {allowed}"
    etag = model.etags.setdefault(state, got["ETag"])
    told = {listed, (head["ContentLength"], head["ETag"]), (len(data), got["ETag"])}
    assert told == {(len(data), etag)}, f"seed {SEED}: {key}: {told}, and its writer was told {etag}"
    model.settle(key, state)


def check_everything(server: Server, model: Model) -> None:
    s3 = client_for(server)
    listed = {item["Key"]: (item["Size"], item["ETag"])
              for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
              for item in page.get("Contents", [])}
    for key in sorted({*model.known, *model.pending, *listed}):
        if key in listed:
            check_object(s3, model, key, listed[key])
            continue
        allowed = model.allowed(key)
        assert None in allowed, f"seed {SEED}: {key} was acknowledged and is gone; allowed: {allowed}"
        model.settle(key, None)


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


def run_and_kill(server: Server, model: Model, rng: random.Random, round_number: int) -> None:
    killed = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as threads:
        running = [threads.submit(write_until_death, server, model, writer, round_number, killed)
                   for writer in range(WRITERS)]
        time.sleep(rng.uniform(0.05, 0.8))
        killed.set()
        server.kill()
        for future in running:
            future.result(timeout=120)


def check_nothing_is_left(server: Server, empty: int) -> None:
    """By what the server counts, by fsck, and by what the next start counts afresh."""
    delete_everything(server)
    assert used_bytes(server) == empty, f"seed {SEED}: space was lost"
    assert server.stop() == 0
    check_store(server)
    assert used_bytes(server.start()) == empty, f"seed {SEED}: space was lost, as seen after a restart"
    assert server.stop() == 0


def test_kill_9_loses_nothing_that_was_acknowledged(own_server):
    rng, model = random.Random(SEED), Model()
    server = own_server.start()
    empty = used_bytes(server)
    client_for(server).create_bucket(Bucket=BUCKET)
    for round_number in range(ROUNDS):
        run_and_kill(server, model, rng, round_number)
        if round_number % 4 == 3:
            check_store(server)
        server.start()
        check_everything(server, model)
    check_nothing_is_left(server, empty)
    missing = KINDS - set(model.done)
    assert not missing, f"seed {SEED}: never acknowledged: {missing}: the test shows nothing about them"
    print(f"{ROUNDS} kills; acknowledged: " + ", ".join(f"{n} {what}" for what, n in sorted(model.done.items())))
