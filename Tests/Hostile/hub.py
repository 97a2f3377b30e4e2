"""The real program under a memory limit, and what the system says about it."""

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class MemoryLimit:
    """A memory control group for one process; where none can be made, a limit of its address space.

    `words` go in front of the command. Version 1 of control groups counts the page cache, too, but gives it up before it kills.
    """

    def __init__(self, limit):
        self.limit = limit
        self.folder = None
        self.kind = "none"
        for make in (self._version1, self._version2):
            try:
                make()
                return
            except OSError:
                self.folder = None
        if shutil.which("prlimit"):
            self.kind = "prlimit --as"
            self.words = ["prlimit", f"--as={limit}"]
        else:
            self.words = []

    def _made(self, root):
        self.folder = Path(tempfile.mkdtemp(prefix="vigla-hostile-", dir=root))
        self.words = ["sh", "-c", f'echo $$ > "{self.folder}/cgroup.procs" && exec "$@"', "sh"]

    def _version1(self):
        self._made("/sys/fs/cgroup/memory")
        (self.folder / "memory.limit_in_bytes").write_text(str(self.limit))
        self.kind = "cgroup v1"

    def _version2(self):
        own = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
        for root in (Path("/sys/fs/cgroup") / own.lstrip("/"), Path("/sys/fs/cgroup")):
            if not (root / "cgroup.controllers").exists():
                continue
            self._made(root)
            try:
                (self.folder / "memory.max").write_text(str(self.limit))
                self.kind = "cgroup v2"
                return
            except OSError:
                self.folder.rmdir()
        raise OSError("no control group")

    def peak(self):
        """Highest use in bytes since `reset`; None where it is not counted."""
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            try:
                return int((self.folder / name).read_text())
            except (OSError, TypeError):
                pass
        return None

    def reset(self):
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            try:
                (self.folder / name).write_text("0")
            except (OSError, TypeError):
                pass

    def remove(self):
        for _ in range(50):
            try:
                if self.folder:
                    self.folder.rmdir()
                return
            except OSError:
                time.sleep(0.1)


class Shim:
    """A library that slows or fails fdatasync and moves the clock of the process that loads it (see shim.c)."""

    class Page(ctypes.Structure):
        _fields_ = [("clock_seconds", ctypes.c_int64), ("sync_fails", ctypes.c_int32), ("sync_delay_ms", ctypes.c_int32)]

    def __init__(self, folder):
        import mmap

        self.library = folder / "shim.so"
        compiler = os.environ.get("CC", "cc")
        source = Path(__file__).with_name("shim.c")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", self.library, source, "-ldl"], check=True)
        page = folder / "shim.page"
        page.write_bytes(bytes(4096))
        self.file = open(page, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 4096)
        self.page = Shim.Page.from_buffer(self.map)
        self.environment = {"LD_PRELOAD": str(self.library), "HOSTILE_SHIM_PAGE": str(page)}


def certificate(folder):
    """Options for a TLS port, with a certificate of its own and an RSA key, whose signatures cost most."""
    made = [folder / "certificate.pem", folder / "key.pem"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-out", made[0], "-keyout", made[1]],
                   check=True, capture_output=True)
    return ["--tls-cert", str(made[0]), "--tls-key", str(made[1]), "--tls-port", "0"]


class Hub:
    """`vigla serve` on a free port, with a data folder and an administrator's secret of its own."""

    def __init__(self, folder, rules, limit, options=(), environment=None, keep=False):
        self.folder = Path(folder)
        self.data = self.folder / "data"
        self.rules = self.folder / "rules.json"
        self.rules.write_text(json.dumps(rules))
        self.binary = os.environ["VIGLA_BIN"]
        if not keep:
            made = subprocess.run([self.binary, "secret", "add", "--data", self.data, "--name", "hostile"], capture_output=True, text=True, check=True)
            (self.folder / "secret.txt").write_text(made.stdout)
        self.secret = (self.folder / "secret.txt").read_text().split()[-1]
        self.memory = MemoryLimit(limit)
        self.log = self.folder / "hub.log"
        self.port = self.tls_port = None
        self.said = ""
        command = [self.binary, "serve", "--port", "0", "--loops", "2", "--data", str(self.data), "--rules", str(self.rules), *options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.memory.words, *command], stdout=subprocess.PIPE, stderr=log, text=True,
                env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        self.said = self.process.stdout.readline()
        ready = re.search(r"vigla ready on http://[^:/]+:(\d+)", self.said)
        if ready:
            self.port = int(ready.group(1))
        if secure := re.search(r"and https://[^:/]+:(\d+)", self.said):
            self.tls_port = int(secure.group(1))

    def alive(self):
        return self.process.poll() is None

    def _status(self, name):
        try:
            for line in open(f"/proc/{self.pid}/status"):
                if line.startswith(name):
                    return int(line.split()[1]) * 1024
        except (OSError, ProcessLookupError):
            pass
        return 0

    def resident(self):
        return self._status("VmRSS:")

    def high_water(self):
        return self._status("VmHWM:")

    def reset_peaks(self):
        try:
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        except OSError:
            pass
        self.memory.reset()

    def cpu_seconds(self):
        try:
            fields = open(f"/proc/{self.pid}/stat").read().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:
            return 0.0

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0

    def stop(self, seconds=20):
        """Asks the process to end, kills it when it does not. Its exit code; negative is a signal."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.memory.remove()
        return self.process.returncode

    def kill(self):
        self.process.kill()
        return self.stop()


class Sampler(threading.Thread):
    """Keeps the last and the highest values of a process, for when it is gone before it was asked."""

    def __init__(self, hub, every=0.1):
        super().__init__(daemon=True)
        self.hub = hub
        self.every = every
        self.peak = self.cgroup = self.cpu = 0
        self.done = threading.Event()

    def look(self):
        self.peak = max(self.peak, self.hub.high_water())
        self.cgroup = max(self.cgroup, self.hub.memory.peak() or 0)
        self.cpu = max(self.cpu, self.hub.cpu_seconds())

    def run(self):
        while not self.done.wait(self.every):
            self.look()

    def reset(self):
        self.hub.reset_peaks()
        self.peak = self.cgroup = 0
        self.look()


def prepare_process():
    """Many sockets are allowed, and being asked to end is like Ctrl-C: what was started is ended, and the table printed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
