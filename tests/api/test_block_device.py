"""A block device as the volume: a loop device, which is one to the kernel and to us."""
from __future__ import annotations

import random
import shutil
import subprocess

import pytest
from conftest import client_for
from server import PENSTOCK, Server

MIB = 1 << 20


@pytest.fixture
def device(tmp_path):
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(512 * MIB)
    losetup = shutil.which("losetup", path="/usr/sbin:/sbin:/usr/bin:/bin")
    made = losetup and subprocess.run([losetup, "--find", "--show", str(image)], capture_output=True, text=True,
                                      check=False)
    if not made or made.returncode:
        pytest.skip("no loop device can be made here: " + (made.stderr.strip() if made else "no losetup"))
    yield made.stdout.strip()
    subprocess.run([losetup, "--detach", made.stdout.strip()], check=True)


def refused(*arguments: str) -> str:
    """The one line that a start that must fail leaves on stderr."""
    done = subprocess.run([str(PENSTOCK), "serve", "--listen", "127.0.0.1:0", "--log-level", "error", *arguments],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    return done.stderr


def test_objects_live_on_a_block_device(device, tmp_path):
    data = random.Random(1).randbytes(20 * MIB)
    server = Server(device, "--meta", str(tmp_path / "meta"), memory="128MiB").start()
    s3 = client_for(server)
    s3.create_bucket(Bucket="on-a-device")
    for _ in range(40):  # 800 MiB in all go through 512 MiB: freed space is used again
        s3.put_object(Bucket="on-a-device", Key="k", Body=data)
    assert server.stop() == 0
    server.start()
    assert client_for(server).get_object(Bucket="on-a-device", Key="k")["Body"].read() == data
    server.kill()
    checked = server.fsck("--meta", str(tmp_path / "meta"))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_device_needs_a_place_for_metadata(device):
    assert "--meta" in refused("--data", device)


def test_a_device_of_one_store_is_not_taken_by_another(device, tmp_path):
    Server(device, "--meta", str(tmp_path / "one"), memory="128MiB").start().stop()
    assert "belongs to another" in refused("--data", device, "--meta", str(tmp_path / "two"))
    restarted = Server(device, "--meta", str(tmp_path / "one"), memory="128MiB").start()
    assert restarted.stop() == 0
