"""A hub to test against: the real program on a free port."""

import os
import re
import select
import signal
import subprocess
import tempfile
from pathlib import Path


class Hub:
    """`vigla serve`, ready when it is made; `start` again serves the same port. What it logs goes to a file, which is shown when it
    does not become ready.

    `rules` is the text of a rules file; `environment` is added to this process'; `program` stands in for VIGLA_BIN."""

    def __init__(self, *options, rules=None, environment=None, program=None):
        self.environment = {**os.environ, **(environment or {})}
        self.program = program or os.environ.get("VIGLA_BIN", ".build/debug/vigla")
        self.folder = tempfile.TemporaryDirectory(prefix="vigla-hub-")
        self.log = open(Path(self.folder.name) / "log", "w+")
        self.options = list(options)
        if rules is not None:
            file = Path(self.folder.name) / "rules.json"
            file.write_text(rules)
            self.options += ["--rules", str(file)]
        self.port = 0
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.program, "serve", "--port", str(self.port), *self.options], env=self.environment,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        # The hub prints one line; if it is silent for so long, it hangs.
        said = self.process.stdout.readline() if select.select([self.process.stdout], [], [], 120)[0] else ""
        ready = re.search(r"vigla ready on https?://[^:/]+:(\d+)", said)
        if not ready:
            self._end(signal.SIGKILL)
            self.log.seek(0)
            raise AssertionError(f"the hub did not become ready; it said:\n{said}{self.log.read()}")
        self.port = int(ready.group(1))

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"http://{self.address}"

    def kill(self):
        """Ends the hub as a crash would; it can be started again."""
        self._end(signal.SIGKILL)

    def halt(self):
        """Ends the hub as its operator does; it can be started again."""
        self._end(signal.SIGTERM)

    def stop(self):
        """Ends the hub for good."""
        self._end(signal.SIGTERM)
        self.log.close()
        self.folder.cleanup()

    def _end(self, how):
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
