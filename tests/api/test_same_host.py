"""Same host, other user, other container: still one-sided."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from server import PENSTOCK

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="becoming somebody else needs root")
DATA = b"moved between strangers" * 5000


@pytest.fixture
def open_folder():
    """Unlike pytest's folders, one that everybody may enter."""
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


@pytest.fixture
def stranger(server, s3, bucket, open_folder):
    """Runs the client, where everybody may execute it, on an object; it must go one-sided."""
    binary = shutil.copy(PENSTOCK, open_folder / "penstock")
    place = open_folder / "out"
    place.mkdir()
    place.chmod(0o777)
    s3.put_object(Bucket=bucket, Key="k", Body=DATA)

    def run(*prefix: str, **options) -> None:
        done = subprocess.run([*prefix, str(binary), "get", "--via", "one-sided", f"{bucket}/k", str(place / "k")],
                              env=server.environment(), capture_output=True, text=True, timeout=60, check=False,
                              **options)
        assert done.returncode == 0, done.stderr
        assert (place / "k").read_bytes() == DATA
    return run


def test_a_client_of_another_user(stranger):
    stranger(user=65534, group=65534, extra_groups=[])


def test_a_client_in_another_process_and_mount_namespace(stranger):
    stranger("unshare", "--pid", "--mount", "--ipc", "--fork")
