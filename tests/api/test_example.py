"""The C example of the README compiles against the library and does what it says."""
import os
import pathlib
import subprocess

import pytest
from server import PENSTOCK, ROOT


def test_the_readme_shows_the_example():
    example = (ROOT / "examples/one_sided.c").read_text()
    assert example in (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where `meson install` put the library: its pkg-config file is what users build with."""
    root = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", str(PENSTOCK.parents[2])], env=os.environ | {"DESTDIR": str(root)},
                   check=True, capture_output=True)
    (file,) = root.rglob("penstock.pc")
    prefix = file.read_text().split("prefix=", 1)[1].split("\n", 1)[0]
    return file.parent, pathlib.Path(f"{root}{prefix}")


def flags(installed, *options: str) -> list[str]:
    folder, prefix = installed
    done = subprocess.run(["pkg-config", *options, f"--define-variable=prefix={prefix}", "penstock"], check=True,
                          env=os.environ | {"PKG_CONFIG_PATH": str(folder)}, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize("linked", ["shared", "static"])
def test_the_example_runs(server, s3, bucket_named_example, installed, tmp_path, linked):
    folder, program = installed[0].parent, tmp_path / "one_sided"
    libraries = flags(installed, "--libs", *(["--static"] if linked == "static" else []))
    if linked == "static":
        libraries[libraries.index("-lpenstock")] = str(folder / "libpenstock.a")
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", str(ROOT / "examples/one_sided.c"), "-o", str(program),
                    *flags(installed, "--cflags"), *libraries], check=True)
    environment = server.environment() | {"LD_LIBRARY_PATH": "" if linked == "static" else str(folder)}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "moved by one-sided transfer (shm)\n"), done.stderr


@pytest.fixture
def bucket_named_example(s3):
    s3.create_bucket(Bucket="example")
    yield
    s3.delete_object(Bucket="example", Key="greeting")
    s3.delete_bucket(Bucket="example")
