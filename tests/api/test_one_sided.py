"""One-sided GET and PUT: what the answers say, what memory holds, and what hostile clients achieve."""
import base64
import fcntl
import os
import random
import re
import subprocess
import sys
import threading
import time

import pytest
import raw
import shm
from test_objects import some_bytes

MIB = 1 << 20
DC_TOKEN = "0102030405060708:01020304:01020304:0102:010203:1:0102030405060708090a0b0c0d0e0f10"
MUTATIONS = int(os.environ.get("PENSTOCK_MUTATIONS", "3000"))


@pytest.fixture
def session(server):
    opened = shm.Session(server)
    yield opened
    opened.close()


@pytest.mark.parametrize("size", [1, 4096, 16385, 262145, 9_000_000])
def test_put_and_get_move_every_byte_and_have_no_body(server, s3, bucket, session, size):
    region, data = session.register(size), some_bytes(size)
    region.memory[:] = data
    stored = shm.put(server, f"/{bucket}/k", region.token())
    assert (stored.status, stored.headers["x-amz-rdma-reply"]) == (200, "200")
    assert stored.headers["x-amz-rdma-bytes-transferred"] == str(size)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data
    region.memory[:] = b"\0" * size
    got = shm.get(server, f"/{bucket}/k", region.token())
    assert (got.status, got.headers["x-amz-rdma-reply"], got.body) == (200, "200", b"")
    assert got.headers["x-amz-rdma-bytes-transferred"] == str(size)
    assert got.headers["content-length"] == "0"
    assert got.headers["etag"] == stored.headers["etag"]
    assert region.memory[:] == data


def test_the_etag_of_a_one_sided_put_cannot_be_taken_for_an_md5(server, bucket, session):
    region = session.register(100)
    etag = shm.put(server, f"/{bucket}/k", region.token()).headers["etag"]
    assert not re.fullmatch(r'"[0-9a-f]{32}"', etag)


def test_a_range_is_answered_206_also_when_it_covers_all(server, s3, bucket, session):
    data = some_bytes(1_000_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    region = session.register(MIB)
    for first, last in ((0, 0), (5, 300_000), (262_143, 262_144), (0, 999_999)):
        region.memory[:] = b"\xaa" * MIB
        got = shm.get(server, f"/{bucket}/k", region.token(1000), {"Range": f"bytes={first}-{last}"})
        assert (got.status, got.headers["x-amz-rdma-reply"]) == (206, "206")
        assert got.headers["content-range"] == f"bytes {first}-{last}/1000000"
        count = last - first + 1
        assert got.headers["x-amz-rdma-bytes-transferred"] == str(count)
        assert region.memory[1000:1000 + count] == data[first:last + 1]
        assert set(region.memory[:1000]) == {0xAA}
        assert set(region.memory[1000 + count:]) <= {0xAA}


def test_an_empty_object(server, s3, bucket, session):
    s3.put_object(Bucket=bucket, Key="k", Body=b"")
    got = shm.get(server, f"/{bucket}/k", session.register(10).token())
    assert (got.status, got.headers["x-amz-rdma-bytes-transferred"]) == (200, "0")


def test_an_object_longer_than_the_memory_is_refused_untouched(server, s3, bucket, session):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 5000)
    region = session.register(4999)
    assert shm.get(server, f"/{bucket}/k", region.token()).status == 400
    assert set(region.memory[:]) == {0}


def test_parts_may_go_one_sided_and_over_http(server, s3, bucket, session):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    region = session.register(5 * MIB)
    region.memory[:] = b"a" * (5 * MIB)
    one = shm.put(server, f"/{bucket}/k", region.token(), query=f"partNumber=1&uploadId={upload}")
    assert (one.status, one.headers["x-amz-rdma-reply"]) == (200, "200")
    two = s3.upload_part(Bucket=bucket, Key="k", UploadId=upload, PartNumber=2, Body=b"b" * 100)
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": [
        {"PartNumber": 1, "ETag": one.headers["etag"]}, {"PartNumber": 2, "ETag": two["ETag"]}]})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"a" * (5 * MIB) + b"b" * 100
    part = session.register(5 * MIB)
    got = raw.request(server, "GET", f"/{bucket}/k", "partNumber=1", {"x-amz-rdma-token": part.token()})
    assert (got.status, got.headers["x-amz-rdma-reply"]) == (206, "206")
    assert part.memory[:] == b"a" * (5 * MIB)


def test_a_checksum_of_the_memory_is_verified(server, bucket, session):
    import zlib
    region = session.register(5)
    region.memory[:] = b"hello"
    crc = base64.b64encode(zlib.crc32(b"hello").to_bytes(4, "big")).decode()
    assert shm.put(server, f"/{bucket}/k", region.token(), {"x-amz-checksum-crc32": crc}).status == 200
    wrong = shm.put(server, f"/{bucket}/bad", region.token(), {"x-amz-checksum-crc32": "AAAAAA=="})
    assert (wrong.status, wrong.code) == (400, "BadDigest")
    assert "etag" not in wrong.headers
    assert raw.request(server, "HEAD", f"/{bucket}/bad").status == 404


def test_a_declared_length_of_a_body_that_never_comes(server, bucket, session):
    """Some clients send the size as Content-Length of a body that never comes."""
    region = session.register(70_000)
    region.memory[:] = b"z" * 70_000
    stored = shm.put(server, f"/{bucket}/k", region.token(), {"Content-Length": "70000"})
    assert (stored.status, stored.headers["x-amz-rdma-bytes-transferred"]) == (200, "70000")


def test_rdma_memory_of_another_kind_is_declined(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    put = shm.put(server, f"/{bucket}/new", DC_TOKEN)
    assert (put.status, put.code, put.headers["x-amz-rdma-reply"]) == (501, "RDMANotSupported", "501")
    assert "etag" not in put.headers
    assert raw.request(server, "HEAD", f"/{bucket}/new").status == 404
    got = shm.get(server, f"/{bucket}/k", DC_TOKEN)
    assert (got.status, got.headers["x-amz-rdma-reply"], got.body) == (200, "501", b"hello")


def test_the_token_must_be_signed(server, s3, bucket, session):
    s3.put_object(Bucket=bucket, Key="k", Body=b"hello")
    region = session.register(10)
    got = raw.request(server, "GET", f"/{bucket}/k", unsigned_headers={"x-amz-rdma-token": region.token()})
    assert (got.status, got.code) == (403, "AccessDenied")
    assert region.memory[:5] == b"\0" * 5


def refused(answer) -> bool:
    return (answer.status, answer.code) == (400, "InvalidRDMAToken") and "x-amz-rdma-reply" not in answer.headers


def test_tokens_out_of_range(server, s3, bucket, session):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100)
    region = session.register(4096)
    outside = ((0, 4097), (4096, 1), (1, 4096), (1 << 63, 1), ((1 << 64) - 1, 2), (0, (1 << 64) - 1), (5, 0))
    for offset, length in outside:
        assert refused(shm.get(server, f"/{bucket}/k", region.token(offset, length))), (offset, length)
        assert refused(shm.put(server, f"/{bucket}/new", region.token(offset, length))), (offset, length)
    token = region.token()
    region.unregister()
    assert refused(shm.get(server, f"/{bucket}/k", token))


def test_a_session_that_ended_takes_its_tokens_with_it(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100)
    session = shm.Session(server)
    token = session.register(4096).token()
    assert shm.get(server, f"/{bucket}/k", token).status == 200
    session.close()
    time.sleep(0.2)
    assert refused(shm.get(server, f"/{bucket}/k", token))


def mutate(rng: random.Random, token: str) -> str:
    """One of: a changed byte, a cut, an insertion, a swap of fields, noise, an absurd length."""
    form, at = rng.randrange(6), rng.randrange(len(token))
    printable = "".join(map(chr, range(33, 127)))
    if form == 0:
        return token[:at] + rng.choice(printable) + token[at + 1:]
    if form == 1:
        return token[:at] or "x"
    if form == 2:
        return token[:at] + "".join(rng.choice(printable) for _ in range(rng.randint(1, 40))) + token[at:]
    if form == 3:
        fields = token.split(":")
        rng.shuffle(fields)
        return ":".join(fields)
    if form == 4:
        return "".join(rng.choice(printable) for _ in range(rng.randint(1, 400)))
    return token[:at] + rng.choice(["f", "0", ":"]) * rng.randint(1, 5000) + token[at:]


def test_thousands_of_mutated_tokens_cost_nothing(server, s3, bucket, session):
    """From a client that signs properly. The server answers each, keeps running, and stray bytes land
    nowhere but in the memory that this very client registered."""
    seed = int(os.environ.get("PENSTOCK_SEED", str(random.SystemRandom().randrange(1 << 32))))
    print(f"seed {seed}")
    rng = random.Random(seed)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 3000)
    mine, other = session.register(4096), shm.Session(server)
    bystander = other.register(4096)
    tokens = [mine.token(), mine.token(16, 4000), DC_TOKEN]
    with raw.connect(server) as sock, sock.makefile("rb") as file:
        for _ in range(MUTATIONS):
            token, method = mutate(rng, rng.choice(tokens)), rng.choice(["GET", "PUT"])
            path = f"/{bucket}/k" if method == "GET" else f"/{bucket}/new"
            headers = raw.sign(server, method, path, headers={"x-amz-rdma-token": token, "Content-Length": "0"})
            sock.sendall(raw.serialise(method, path, headers))
            answer = raw.read_answer(file)
            assert answer is not None and answer.status in (200, 400, 501), f"seed {seed}: {token!r}: {answer}"
            if answer.status == 400:
                assert answer.code in ("InvalidRDMAToken", "InvalidArgument"), f"seed {seed}: {token!r}: {answer}"
    assert bystander.memory[:] == b"\0" * 4096
    assert server.alive()
    other.close()


KILLED_CLIENT = """
import sys
sys.path[:0] = {path!r}
import shm, server as s
running = s.Server.__new__(s.Server)
running.url = {url!r}
session = shm.Session(running)
region = session.register({size})
print("go", flush=True)
while True:
    if {put}:
        shm.put(running, "/{bucket}/put-{number}", region.token())
    else:
        shm.get(running, "/{bucket}/big", region.token())
"""


def test_clients_killed_in_mid_transfer(server, s3, bucket):
    s3.put_object(Bucket=bucket, Key="big", Body=some_bytes(64 * MIB))
    rng = random.Random(11)
    for number in range(12):
        program = KILLED_CLIENT.format(path=sys.path[:6] + [str(os.path.dirname(shm.__file__))], url=server.url,
                                       size=64 * MIB, put=number % 2, bucket=bucket, number=number)
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"go\n"
        time.sleep(rng.uniform(0.005, 0.15))
        child.kill()
        child.wait()
        child.stdout.close()
    assert server.alive()
    for item in s3.list_objects_v2(Bucket=bucket)["Contents"]:  # a PUT under way is whole or absent
        assert item["Size"] == 64 * MIB
    assert s3.get_object(Bucket=bucket, Key="big")["Body"].read() == some_bytes(64 * MIB)


def test_dropped_registrations_come_back(server):
    """Sessions of dead clients leave nothing registered."""
    import json
    for _ in range(20):
        session = shm.Session(server)
        session.register(8 * MIB)
        session.close()
    for _ in range(50):
        stats = json.loads(raw.request(server, "GET", "/.penstock/stats").body)["transfer"]
        if stats["sessions"] == 0:
            break
        time.sleep(0.1)
    assert (stats["sessions"], stats["regions"], stats["registered_bytes"]) == (0, 0, 0)


def test_tickets_work_once(server):
    first = shm.Session(server)
    with pytest.raises(shm.Refused):
        shm.Session(server, ticket=first.ticket)
    with pytest.raises(shm.Refused):
        shm.Session(server, ticket=bytes(16))
    first.close()


def test_only_sealed_memory_is_mapped(server, session, tmp_path):
    """Memory that its owner could shrink under the server's feet is refused, and files are too."""
    bad = [(shm.memfd(4096, seals=0), 4096), (shm.memfd(4096, seals=fcntl.F_SEAL_GROW), 4096),
           (shm.memfd(4096), 8192), (shm.memfd(4096), 0)]
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 4096)
    bad += [(file, 4096), (os.open("/dev/zero", os.O_RDWR), 4096)]
    for fd, length in bad:
        with pytest.raises(shm.Refused):
            session.register_fd(fd, length)
    assert session.register(4096)


def test_garbage_on_the_socket_ends_only_that_session(server, session):
    for message in (b"\xff" * 128, b"GET / HTTP/1.1\r\n\r\n" * 10):
        other = shm.Session(server)
        other.sock.sendall(message)
        with pytest.raises((shm.Refused, OSError)):
            while True:
                other.receive(shm.WELCOME)
    assert session.register(4096)


def test_memory_that_changes_during_a_put_is_stored_as_it_was_read(server, s3, bucket, session):
    """What the server stored matches its checksum, whatever the client did meanwhile."""
    region, stop = session.register(32 * MIB), threading.Event()

    def scribble():
        value = 0
        while not stop.is_set():
            value = (value + 1) % 256
            region.memory[0:MIB] = bytes([value]) * MIB
    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(5):
            assert shm.put(server, f"/{bucket}/k", region.token()).status == 200
            assert len(s3.get_object(Bucket=bucket, Key="k")["Body"].read()) == 32 * MIB
    finally:
        stop.set()
        thread.join()
