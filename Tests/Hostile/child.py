"""A script of this folder in a process of its own."""

import os
import subprocess
import sys
import threading
from pathlib import Path


class Child:
    """Lines in, lines out. Only this process is ever ended, never one by name."""

    def __init__(self, script, *words, nice=0):
        command = [sys.executable, str(Path(__file__).with_name(script)), *map(str, words)]
        self.process = subprocess.Popen(
            ["nice", "-n", str(nice), *command] if nice else command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})

    def tell(self, text):
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def read(self, seconds):
        """The next line within a time; "" when there is none."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        return line

    def end(self):
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
