"""The penstock command: what it moves, how it says it went, how it fails."""
import filecmp
import json
import random

import pytest


@pytest.fixture
def folder(tmp_path):
    rng = random.Random(9)
    for name, size in {"empty": 0, "one": 1, "small": 5000, "odd": 1_234_567, "large": 150_000_000}.items():
        (tmp_path / name).write_bytes(rng.randbytes(size))
    return tmp_path


@pytest.mark.parametrize("via", ["http", "one-sided", "auto"])
def test_put_and_get(server, bucket, folder, via):
    names = ["one", "small", "odd", "large"]
    out = server.penstock("put", "--via", via, *[str(folder / n) for n in names], f"{bucket}/p/").stdout
    assert ("shm" in out) == (via != "http")
    for name in names:
        server.penstock("get", "--via", via, f"s3://{bucket}/p/{name}", str(folder / "back"))
        assert filecmp.cmp(folder / name, folder / "back", shallow=False)
        (folder / "back").unlink()


def test_empty_files(server, bucket, folder):
    server.penstock("put", str(folder / "empty"), f"{bucket}/empty")
    server.penstock("get", f"{bucket}/empty", str(folder / "back"))
    assert (folder / "back").stat().st_size == 0


def test_ls_stat_rm_mb_rb(server, folder):
    server.penstock("mb", "cli-made")
    assert "cli-made" in server.penstock("ls").stdout
    server.penstock("put", str(folder / "small"), "cli-made/a/b")
    assert "a/" in server.penstock("ls", "cli-made").stdout
    assert "5000" in server.penstock("ls", "--recursive", "cli-made").stdout
    assert "5000" in server.penstock("stat", "cli-made/a/b").stdout
    full = server.penstock("rb", "cli-made", check=False)
    assert full.returncode == 1 and "BucketNotEmpty" in full.stderr
    server.penstock("rm", "cli-made/a/b")
    server.penstock("rb", "cli-made")


@pytest.mark.parametrize("arguments,code,words", [
    (["get", "no-such-bucket/k", "/tmp/x"], 1, "NoSuchBucket"),
    (["get"], 2, "usage"),
    (["get", "--via", "carrier-pigeon", "a/b", "c"], 2, "--via"),
    (["frobnicate"], 2, "no command"),
    (["put", "/nonexistent/file", "b/k"], 1, "/nonexistent/file"),
    (["serve", "--listen", "nonsense"], 1, "--listen"),
    (["serve", "--memory", "lots"], 2, "memory"),
    (["serve", "--no-such-option"], 2, "--no-such-option"),
    (["bench", "--size", "big"], 2, "--size"),
])
def test_mistakes_are_explained_in_one_line(server, arguments, code, words):
    done = server.penstock(*arguments, check=False)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_a_failed_get_leaves_no_file(server, bucket, tmp_path):
    done = server.penstock("get", f"{bucket}/none", str(tmp_path / "out"), check=False)
    assert done.returncode == 1 and "NoSuchKey" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bench_prints_a_row_of_json_for_each_cell(server):
    out = server.penstock("bench", "--size", "64KiB", "--via", "http,one-sided", "--concurrency", "1,2",
                          "--duration", "0.2", "--json").stdout
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == 8
    assert {(r["op"], r["via"], r["concurrency"]) for r in rows} == {
        (op, via, c) for op in ("get", "put") for via in ("http", "one-sided") for c in (1, 2)}
    for row in rows:
        assert set(row) == {"op", "via", "size_bytes", "concurrency", "gb_per_s", "ops_per_s", "p50_ms", "p99_ms",
                            "client_cpu_s_per_gb", "server_cpu_s_per_gb", "errors"}
        assert row["errors"] == 0 and row["ops_per_s"] > 0 and row["server_cpu_s_per_gb"] > 0


def test_http_when_it_was_asked_for_is_not_called_a_fall_back(server, bucket, folder):
    out = server.penstock("put", "--via", "http", str(folder / "small"), f"{bucket}/k").stdout
    assert "http" in out and "not one-sided" not in out
