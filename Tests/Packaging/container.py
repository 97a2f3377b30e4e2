"""`docker run`, as far as the packaging test needs it: the image's entry point, confined, as process 1 of its own."""

import os
import signal
import subprocess
import time
from pathlib import Path


class Container:
    """Runs an Image's ENTRYPOINT with CMD: as its user, without capabilities, in its own process namespace.

    Being process 1 matters: the kernel gives it no default action for SIGTERM, so a server that does not handle the
    signal itself would not stop.
    """

    def __init__(self, image, environment, log):
        self.image = image
        self.environment = {**image.environment, **environment}
        self.log = Path(log)

    def __enter__(self):
        words = self.image.tree.command([*self.image.entrypoint, *self.image.command], self.image.user,
                                        self.environment, self.image.workdir, confined=True)
        with self.log.open("wb") as out:
            self.outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child=KILL", *words],
                                          stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_):
        if self.outer.poll() is None:
            self.outer.kill()
            self.outer.wait()

    def healthy(self):
        """One HEALTHCHECK: whether its command ended with 0."""
        words = self.image.tree.command(self.image.health, self.image.user, self.environment, self.image.workdir,
                                        confined=True)
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=30)
        return done.returncode == 0

    def wait_until_healthy(self, seconds=60):
        """Repeats the HEALTHCHECK until it passes. False when the server ended or the time is over."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.outer.poll() is None:
            if self.healthy():
                return True
            time.sleep(0.1)
        return False

    def inner(self):
        """This side's process id of the server."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state = (folder / "stat").read_text()
            except OSError:
                continue
            if int(state.rpartition(")")[2].split()[1]) == self.outer.pid:
                return int(folder.name)
        raise ProcessLookupError("the server is not running")

    def stop(self, seconds=10):
        """`docker stop`: the image's stop signal, then the exit status; None when it did not end in time."""
        os.kill(self.inner(), signal.Signals[self.image.stop_signal])
        try:
            return self.outer.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def output(self):
        return self.log.read_text(errors="replace")
