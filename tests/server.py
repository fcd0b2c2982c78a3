"""A running Penstock for tests: its own data directory, a free port, known keys."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = pathlib.Path(os.environ.get("PENSTOCK", ROOT / os.environ.get("BUILD", "build") / "src/cli/penstock"))
ACCESS_KEY = "PENSTOCKTESTKEY00001"
SECRET_KEY = "penstock/test+secret/for/loopback/only"


class Server:
    """Start with start(), end with stop() (SIGTERM) or kill() (SIGKILL); restart on the same data."""

    def __init__(self, data: pathlib.Path, *options: str, memory: str = "256MiB") -> None:
        self.data = data
        self.options = ["--memory", memory, *options]
        self.process: subprocess.Popen | None = None
        self.url = ""
        self.log: list[str] = []

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def environment(self) -> dict[str, str]:
        """For clients: endpoint and keys under our names and AWS's."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PENSTOCK_"))}
        return clean | {
            "PENSTOCK_ENDPOINT": self.url,
            "PENSTOCK_ACCESS_KEY": ACCESS_KEY,
            "PENSTOCK_SECRET_KEY": SECRET_KEY,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self, timeout: float = 60) -> "Server":
        command = [str(PENSTOCK), "serve", "--data", str(self.data), "--listen", "127.0.0.1:0", *self.options]
        environment = self.environment()
        del environment["PENSTOCK_ENDPOINT"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self._drain, args=(self.process.stderr,), daemon=True).start()
        ready = self.process.stdout.readline()
        if "ready http://" not in ready:
            self.process.wait(timeout)
            time.sleep(0.1)
            raise RuntimeError(f"the server did not start: {ready!r}\n{''.join(self.log)}")
        self.url = ready.split("ready ", 1)[1].strip()
        threading.Thread(target=self._drain, args=(self.process.stdout,), daemon=True).start()
        return self

    def _drain(self, stream) -> None:
        for line in stream:
            self.log.append(line)

    def stop(self, timeout: float = 60) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout)
        self.process = None
        return code

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
            self.process = None

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def fsck(self, *options: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(PENSTOCK), "fsck", "--data", str(self.data), *options],
                              capture_output=True, text=True, timeout=600, check=False)

    def penstock(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run a client command of the penstock binary against this server."""
        done = subprocess.run([str(PENSTOCK), *arguments], env=self.environment(), capture_output=True,
                              text=True, timeout=600, check=False)
        if check and done.returncode:
            raise AssertionError(f"penstock {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done
