"""Fixtures shared by the API and crash tests."""
from __future__ import annotations

import itertools
import os
import pathlib
import random
import sys

import boto3
import botocore.config
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import server as penstock_server  # noqa: E402

_numbers = itertools.count(1)


# Here and not in a hook: pytest -q calls no header hook, and test modules read it when they are imported.
SEED = os.environ.setdefault("PENSTOCK_SEED", str(random.SystemRandom().randrange(1 << 32)))
SEED_LINE = f"seed: PENSTOCK_SEED={SEED}"


def pytest_report_header() -> str:
    """Seeds are printed always: a failure must be replayed, and a success that was luck found out."""
    return SEED_LINE


def pytest_terminal_summary(terminalreporter) -> None:
    if terminalreporter.verbosity < 0:  # -q has left out the header
        terminalreporter.write_line(SEED_LINE)


def client_for(server: penstock_server.Server, **config):
    """An unmodified boto3 client for a server."""
    settings = {"retries": {"max_attempts": 0}, "s3": {"addressing_style": "path"}, "signature_version": "s3v4"}
    settings.update(config)
    return boto3.client("s3", endpoint_url=server.url, region_name="us-east-1",
                        aws_access_key_id=penstock_server.ACCESS_KEY,
                        aws_secret_access_key=penstock_server.SECRET_KEY,
                        config=botocore.config.Config(**settings))


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """One server for all tests that do not stop it. It must still run, and stop cleanly, at the end."""
    running = penstock_server.Server(tmp_path_factory.mktemp("data")).start()
    yield running
    assert running.alive(), "the server died during the tests:\n" + "".join(running.log[-50:])
    assert running.stop() == 0
    checked = running.fsck()
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture
def own_server(tmp_path):
    """A server for one test alone, not started yet, that may stop or kill it; it does not outlive the test."""
    own = penstock_server.Server(tmp_path / "data", memory="128MiB")
    yield own
    own.kill()


@pytest.fixture(scope="session")
def s3(server):
    return client_for(server)


@pytest.fixture
def bucket(s3):
    """A fresh bucket, emptied and removed afterwards."""
    name = f"test-bucket-{next(_numbers)}"
    s3.create_bucket(Bucket=name)
    yield name
    for upload in s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
        s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for item in page.get("Contents", []):
            s3.delete_object(Bucket=name, Key=item["Key"])
    s3.delete_bucket(Bucket=name)
