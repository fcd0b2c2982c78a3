"""The awscli as it comes from Debian, unchanged."""
import filecmp
import os
import random
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not os.access("/usr/bin/aws", os.X_OK), reason="awscli is not installed")


@pytest.fixture
def aws(server):
    def run(*arguments: str, **environment: str) -> str:
        done = subprocess.run(["/usr/bin/aws", "--endpoint-url", server.url, *arguments],
                              env=server.environment() | {"PATH": os.environ["PATH"]} | environment,
                              capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"aws {arguments}\n{done.stdout}{done.stderr}"
        return done.stdout
    return run


def test_mb_cp_ls_sync_rm_rb(aws, tmp_path):
    rng = random.Random(5)
    source, back = tmp_path / "source", tmp_path / "back"
    (source / "deep" / "er").mkdir(parents=True)
    for name, size in {"empty": 0, "small": 100, "deep/er/medium": 300_000, "large": 20_000_000}.items():
        (source / name).write_bytes(rng.randbytes(size))
    aws("s3", "mb", "s3://cli-bucket")
    assert "cli-bucket" in aws("s3", "ls")
    aws("s3", "cp", str(source / "large"), "s3://cli-bucket/one/large")  # 20 MB: multipart
    aws("s3", "cp", "s3://cli-bucket/one/large", str(tmp_path / "large"))
    assert filecmp.cmp(source / "large", tmp_path / "large", shallow=False)
    aws("s3", "sync", str(source), "s3://cli-bucket/tree")
    assert aws("s3", "sync", str(source), "s3://cli-bucket/tree") == ""  # nothing left to do
    listing = aws("s3", "ls", "--recursive", "s3://cli-bucket")
    assert "tree/deep/er/medium" in listing and "20000000" in listing
    assert "PRE deep/" in aws("s3", "ls", "s3://cli-bucket/tree/")
    aws("s3", "sync", "s3://cli-bucket/tree", str(back))
    for name in ("empty", "small", "deep/er/medium", "large"):
        assert filecmp.cmp(source / name, back / name, shallow=False)
    aws("s3", "rm", "--recursive", "s3://cli-bucket")
    assert aws("s3", "ls", "--recursive", "s3://cli-bucket") == ""
    aws("s3", "rb", "s3://cli-bucket")


def test_sync_of_an_empty_a_tiny_and_a_large_file_at_once(aws, tmp_path):
    """The large one goes as concurrent parts beside the others. No second attempt: a request that hangs
    until the client gives up is a failure, not a delay."""
    source, back = tmp_path / "source", tmp_path / "back"
    source.mkdir()
    for name, size in {"empty": 0, "tiny": 2, "large": 20_000_000}.items():
        (source / name).write_bytes(random.Random(size).randbytes(size))
    aws("s3", "mb", "s3://sync-bucket")
    aws("s3", "sync", str(source), "s3://sync-bucket", AWS_MAX_ATTEMPTS="1")
    aws("s3", "sync", "s3://sync-bucket", str(back), AWS_MAX_ATTEMPTS="1")
    assert sorted(path.name for path in back.iterdir()) == ["empty", "large", "tiny"]
    for path in source.iterdir():
        assert filecmp.cmp(path, back / path.name, shallow=False)
    aws("s3", "rb", "--force", "s3://sync-bucket")
