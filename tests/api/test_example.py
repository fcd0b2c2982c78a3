"""The C example of the README compiles against the library and does what it says."""
import os
import pathlib
import subprocess

from server import PENSTOCK, ROOT


def test_the_readme_shows_the_example():
    example = (ROOT / "examples/one_sided.c").read_text()
    assert example in (ROOT / "README.md").read_text()


def test_the_example_runs(server, s3, tmp_path):
    s3.create_bucket(Bucket="example")
    library = pathlib.Path(PENSTOCK).parent.parent / "client"
    program = tmp_path / "one_sided"
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", str(ROOT / "examples/one_sided.c"), "-o", str(program),
                    f"-I{ROOT / 'include'}", f"-L{library}", "-lpenstock"], check=True)
    environment = server.environment() | {"LD_LIBRARY_PATH": str(library), "PATH": os.environ["PATH"]}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "moved by one-sided transfer (shm)\n"), done.stderr
    s3.delete_object(Bucket="example", Key="greeting")
    s3.delete_bucket(Bucket="example")
