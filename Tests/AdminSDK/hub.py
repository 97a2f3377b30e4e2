"""A hub to test against: the real program on a free port."""

import os
import re
import signal
import subprocess


class Hub:
    """`vigla serve`, ready when it is made. What it logs goes to `log`, a file."""

    def __init__(self, *options, log):
        command = [os.environ["VIGLA_BIN"], "serve", "--port", "0", *options]
        self.log = log
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        said = self.process.stdout.readline()
        ready = re.search(r"vigla ready on http://([^:/]+:(\d+))", said)
        if not ready:
            self.stop()
            log.seek(0)
            raise AssertionError(f"the hub did not become ready; it said:\n{said}{log.read()}")
        self.address = ready.group(1)
        self.url = f"http://{self.address}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
