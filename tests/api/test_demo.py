"""make demo, on less input than it takes for people."""
import sys

import pytest
from server import PENSTOCK, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import demo  # noqa: E402


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(demo, "LARGE_BYTES", 33 * demo.MIB)  # still a multipart upload
    monkeypatch.setattr(demo, "SMALL_TOTAL", 2 * demo.MIB)
    monkeypatch.setattr(demo.Measured, "rows", [])
    monkeypatch.setattr(sys, "argv", ["demo.py", str(PENSTOCK)])


def test_every_way_gives_the_same_bytes_and_has_a_row(capsys):
    demo.main()
    told = capsys.readouterr().out
    assert "every byte was equal" in told
    for way in ("upload, boto3 over HTTP", "read, boto3 over HTTP", "read, one-sided", "read after restart, one-sided"):
        assert f"\n{way} " in told


@pytest.mark.parametrize("way", ["read_http", "read_one_sided"])
def test_one_wrong_byte_is_a_failure(capsys, monkeypatch, way):
    read = getattr(demo, way)

    def expecting_another_byte(server, files, wanted, *label):
        read(server, files, wanted | {"large.bin": "0" * 64}, *label)
    monkeypatch.setattr(demo, way, expecting_another_byte)
    with pytest.raises(SystemExit, match="1 objects came back different: .'large.bin'."):
        demo.main()
    assert "every byte was equal" not in capsys.readouterr().out
