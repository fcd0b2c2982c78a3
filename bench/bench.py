"""The benchmark table: our server over HTTP and one-sided, and nginx with sendfile as the peer, all by
the same client (`penstock bench`) in the same run. Rounds are interleaved; medians are printed."""
from __future__ import annotations

import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
import server as penstock_server  # noqa: E402

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = os.environ.get("BENCH_SECONDS", "3")
OBJECTS = int(os.environ.get("BENCH_OBJECTS", "1000000"))  # of the start-up test; 0: leave it out
MIB = 1 << 20
# name, server, op, via, size, concurrency
CELLS = [
    ("nginx GET 64MiB", "nginx", "get", "http", 64 * MIB, 1),
    ("HTTP GET 64MiB", "penstock", "get", "http", 64 * MIB, 1),
    ("one-sided GET 64MiB", "penstock", "get", "one-sided", 64 * MIB, 1),
    ("HTTP PUT 64MiB", "penstock", "put", "http", 64 * MIB, 1),
    ("one-sided PUT 64MiB", "penstock", "put", "one-sided", 64 * MIB, 1),
    ("HTTP PUT 64MiB, tmpfs", "tmpfs", "put", "http", 64 * MIB, 1),
    ("one-sided PUT 64MiB, tmpfs", "tmpfs", "put", "one-sided", 64 * MIB, 1),
    ("nginx GET 4KiB c32", "nginx", "get", "http", 4096, 32),
    ("HTTP GET 4KiB c32", "penstock", "get", "http", 4096, 32),
    ("one-sided GET 4KiB c32", "penstock", "get", "one-sided", 4096, 32),
    ("HTTP PUT 4KiB c64", "penstock", "put", "http", 4096, 64),
]
NGINX = """
daemon off; user root; worker_processes auto; pid {root}/nginx.pid; error_log {root}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000;
    client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
    uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
    server {{ listen 127.0.0.1:{port}; root {root}/www; }}
}}
"""


class Nginx:
    """nginx serving the files that the client asks for by the names of its objects."""

    def __init__(self, root: pathlib.Path) -> None:
        import socket
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        root.mkdir()
        for _, server, _, _, size, concurrency in CELLS:
            if server != "nginx":
                continue
            folder = root / "www" / "penstock-bench" / f"bench-{size}"
            folder.mkdir(parents=True)
            for thread in range(concurrency):
                for key in range(16 if size <= MIB else 1):
                    (folder / f"{thread}-{key}").write_bytes(b"x" * size)
        (root / "nginx.conf").write_text(NGINX.format(root=root, port=port))
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-c", str(root / "nginx.conf")],
                                        stderr=subprocess.DEVNULL)
        for _ in range(100):
            time.sleep(0.05)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
        sys.exit("bench: nginx did not start")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


def fdatasync_rate(folder: pathlib.Path) -> float:
    """Appends of 4 KiB with fdatasync, one after another: what one synced write costs here."""
    fd = os.open(folder / "sync", os.O_CREAT | os.O_WRONLY)
    data, count, end = b"x" * 4096, 0, time.monotonic() + 1
    while time.monotonic() < end:
        os.pwrite(fd, data, (count % 1024) * 4096)
        os.fdatasync(fd)
        count += 1
    os.close(fd)
    return count


def drive_rate(folder: pathlib.Path) -> float:
    """GB/s of 64 MiB of existing space rewritten past the page cache, one synced stream: what bounds a durable PUT."""
    import mmap
    block, total = mmap.mmap(-1, 4 * MIB), 64 * MIB
    fd = os.open(folder / "drive", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    rates = []
    for _ in range(3):
        start = time.monotonic()
        for offset in range(0, total, len(block)):
            os.pwrite(fd, block, offset)
        os.fdatasync(fd)
        rates.append(total / 1e9 / (time.monotonic() - start))
    os.close(fd)
    return max(rates[1:])


def start_up(root: pathlib.Path) -> None:
    """Fill a store with small objects, then restart it: seconds from exec to ready."""
    threads = 64
    server = penstock_server.Server(root / "full", "--durability", "crash", memory="1GiB").start()
    fill = ["bench", "--op", "put", "--via", "http", "--size", "1KiB", "--concurrency", str(threads),
            "--keys", str(-(-OBJECTS // threads)), "--json"]
    rate = json.loads(server.penstock(*fill, "--duration", "5").stdout)["ops_per_s"]
    server.penstock(*fill, "--duration", str(OBJECTS / rate * 1.5))
    count = server.penstock("ls", "penstock-bench/bench-1024/").stdout.count("\n")
    times = []
    for _ in range(ROUNDS):
        server.stop()
        start = time.monotonic()
        server.start()
        times.append(time.monotonic() - start)
    server.stop()
    verdict = "reached" if statistics.median(times) < 1 and count >= OBJECTS else "MISSED"
    print(f"start to ready with {count} objects: median of {ROUNDS} {statistics.median(times):.2f} s (goal 1 s) "
          f"{verdict}")


def measure(server, url: str, cell) -> dict:
    _, kind, op, via, size, concurrency = cell
    command = [str(penstock_server.PENSTOCK), "bench", "--endpoint", url, "--op", op, "--via", via,
               "--size", str(size), "--concurrency", str(concurrency), "--duration", SECONDS, "--json"]
    if kind == "nginx":
        command.append("--no-prepare")
    done = subprocess.run(command, env=server.environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"bench: {' '.join(command)}\n{done.stdout}{done.stderr}")
    result = json.loads(done.stdout)
    if result["via"] != via:
        sys.exit(f"bench: asked for {via}, went {result['via']}")
    return result


def table(results: dict[str, list[dict]]) -> dict[str, dict[str, float]]:
    print(f"\n{'cell':26} {'GB/s':>8} {'min..max':>15} {'ops/s':>10} {'p50 ms':>8} {'p99 ms':>8} "
          f"{'client s/GB':>12} {'server s/GB':>12}")
    medians = {}
    for name, runs in results.items():
        def middle(field):
            values = [r[field] for r in runs if r[field] is not None]
            return statistics.median(values) if values else float("nan")
        rates = [r["gb_per_s"] for r in runs]
        m = medians[name] = {f: middle(f) for f in ("gb_per_s", "ops_per_s", "p50_ms", "p99_ms",
                                                    "client_cpu_s_per_gb", "server_cpu_s_per_gb")}
        print(f"{name:26} {m['gb_per_s']:8.3f} {min(rates):7.3f}..{max(rates):<6.3f} {m['ops_per_s']:10.0f} "
              f"{m['p50_ms']:8.3f} {m['p99_ms']:8.3f} {m['client_cpu_s_per_gb']:12.4f} "
              f"{m['server_cpu_s_per_gb']:12.4f}")
    return medians


def verdicts(m: dict[str, dict[str, float]], sync_rate: float, drive_rate: float) -> None:
    def rate(name, field="gb_per_s"):
        return m[name][field]
    rows = [
        ("one-sided GET / HTTP GET, 64MiB", rate("one-sided GET 64MiB") / rate("HTTP GET 64MiB"), 4.0),
        ("one-sided PUT / HTTP PUT, 64MiB", rate("one-sided PUT 64MiB") / rate("HTTP PUT 64MiB"), 2.1),
        ("the same, the data on tmpfs", rate("one-sided PUT 64MiB, tmpfs") / rate("HTTP PUT 64MiB, tmpfs"), None),
        ("one-sided PUT / the drive's durable rate", rate("one-sided PUT 64MiB") / drive_rate, None),
        ("HTTP / one-sided client CPU per GB, GET",
         rate("HTTP GET 64MiB", "client_cpu_s_per_gb") / rate("one-sided GET 64MiB", "client_cpu_s_per_gb"), 10.0),
        ("HTTP / one-sided client CPU per GB, PUT",
         rate("HTTP PUT 64MiB", "client_cpu_s_per_gb") / rate("one-sided PUT 64MiB", "client_cpu_s_per_gb"), 10.0),
        ("HTTP GET 4KiB c32, per second", rate("HTTP GET 4KiB c32", "ops_per_s"), 40000.0),
        ("HTTP PUT 4KiB c64 durable, per second", rate("HTTP PUT 4KiB c64", "ops_per_s"), 8000.0),
        ("HTTP PUT 4KiB c64 / fdatasync rate", rate("HTTP PUT 4KiB c64", "ops_per_s") / sync_rate, None),
    ]
    if "nginx GET 64MiB" in m:
        rows[6:6] = [("HTTP GET 64MiB / nginx", rate("HTTP GET 64MiB") / rate("nginx GET 64MiB"), 1.0),
                     ("HTTP GET 4KiB / nginx, ops", rate("HTTP GET 4KiB c32", "ops_per_s") /
                      rate("nginx GET 4KiB c32", "ops_per_s"), None)]
    print(f"\n{'ratio':42} {'measured':>10} {'goal':>8}")
    for name, value, goal in rows:
        verdict = "" if goal is None else "reached" if value >= goal else "MISSED"
        print(f"{name:42} {value:10.2f} {goal if goal is not None else '-':>8} {verdict}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        root = pathlib.Path(folder)
        server = penstock_server.Server(root / "data", memory="1GiB").start()
        shared = tempfile.TemporaryDirectory(prefix="penstock-bench-", dir="/dev/shm")
        on_tmpfs = penstock_server.Server(pathlib.Path(shared.name) / "data", "--capacity", "2GiB",
                                          memory="256MiB").start()
        nginx = Nginx(root / "nginx") if shutil.which("/usr/sbin/nginx") else None
        cells = [cell for cell in CELLS if nginx or cell[1] != "nginx"]
        if nginx is None:
            print("bench: nginx is not installed: the peer's rows are left out")
        results: dict[str, list[dict]] = {cell[0]: [] for cell in cells}
        syncs, drives = [], []
        servers = {"penstock": server, "tmpfs": on_tmpfs, "nginx": nginx}
        try:
            for round_number in range(ROUNDS):
                syncs.append(fdatasync_rate(root))
                drives.append(drive_rate(root))
                for cell in cells:
                    results[cell[0]].append(measure(server, servers[cell[1]].url, cell))
                print(f"bench: round {round_number + 1} of {ROUNDS} done", flush=True)
        finally:
            if nginx:
                nginx.stop()
            code = server.stop() or on_tmpfs.stop()
            shared.cleanup()
        print(f"\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}; "
              f"medians of {ROUNDS} rounds of {SECONDS} s; fdatasync {statistics.median(syncs):.0f}/s, "
              f"drive {statistics.median(drives):.2f} GB/s written and synced")
        verdicts(table(results), statistics.median(syncs), statistics.median(drives))
        if OBJECTS:
            start_up(root)
        if code:
            sys.exit(f"bench: the server ended with {code}")


if __name__ == "__main__":
    main()
