"""A Docker engine for one test: its own data, socket and process, so that nothing of an engine that runs here already is touched.

It is started twice. To build images it has the machine's network, without firewall rules of its own. To run them it is in a network
namespace, where it does all that it does elsewhere: its bridges and rules end with the namespace.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class Unavailable(Exception):
    """Why there can be no engine here."""


class Engine:
    def __init__(self, folder, builds):
        self.folder = Path(folder)
        # An engine without a bridge removes docker0, which may be another engine's, so this one gets an unused name.
        self.bridge = f"vigla{os.getpid()}" if builds else None
        self.network = ["--bridge", self.bridge, "--iptables=false", "--ip6tables=false", "--ip-forward=false"] if builds else []
        self.socket = self.folder / "docker.sock"
        self.process = None
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith(("VIGLA_", "COMPOSE_", "DOCKER_"))},
                            "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_CONFIG": str(self.folder / "client")}

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("it needs root")
        for program, package in {"docker": "docker.io", "dockerd": "docker.io", "debootstrap": "debootstrap", "ip": "iproute2"}.items():
            if not shutil.which(program):
                raise Unavailable(f"there is no {program} (apt-get install {package})")
        (self.folder / "client").mkdir(parents=True, exist_ok=True)
        try:
            self.start(self.folder / "dockerd.log")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, log):
        if self.bridge:
            added = subprocess.run(["ip", "link", "add", self.bridge, "type", "bridge"], capture_output=True, text=True)
            if added.returncode:
                raise Unavailable(f"no right to add a network device ({added.stderr.strip()})")
            subprocess.run(["ip", "address", "add", "172.30.92.1/24", "dev", self.bridge], check=True)
        self.process = subprocess.Popen(
            ["dockerd", "--host", f"unix://{self.socket}", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
             "--pidfile", self.folder / "dockerd.pid", *self.network],
            stdin=subprocess.DEVNULL, stdout=log.open("wb"), stderr=subprocess.STDOUT)
        until = time.monotonic() + 60
        while subprocess.run(["docker", "version"], env=self.environment, capture_output=True).returncode:
            if self.process.poll() is not None or time.monotonic() > until:
                last = log.read_text(errors="replace").strip().splitlines()[-1:]
                raise Unavailable(f"dockerd does not start: {' '.join(last)}")
            time.sleep(0.1)

    def __exit__(self, *_):
        """Containers end with the engine; its folder is the caller's to remove."""
        if self.process and self.process.poll() is None:
            for container in subprocess.run(["docker", "ps", "-q"], env=self.environment, capture_output=True, text=True).stdout.split():
                subprocess.run(["docker", "kill", container], env=self.environment, capture_output=True)
            self.process.terminate()
            self.process.wait()
        if self.bridge:
            subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True)      # absent if it could not be added
        # The engine leaves its own network namespace mounted.
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith(f"{self.folder}/"):
                subprocess.run(["umount", place])

    def docker(self, *words, **options):
        """What the command says on standard output; an error has all that it said."""
        done = subprocess.run(["docker", *map(str, words)], env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **({"stdin": subprocess.DEVNULL} if "input" not in options else {}), **options)
        if done.returncode:
            raise OSError(f"docker {' '.join(map(str, words))} ended with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done.stdout

    def inspect(self, name):
        return json.loads(self.docker("inspect", name))[0]

    def build(self, tag, context, dockerfile=None, **arguments):
        """`docker build`, with the machine's network."""
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        if dockerfile is None:
            return self.docker("build", "--network", "host", "-t", tag, *given, context)
        return self.docker("build", "--network", "host", "-t", tag, *given, "-f", "-", context, input=dockerfile)


def compose_program(venv, environment):
    """The argument vector of Docker Compose: the engine's plug-in, or the one of PyPI."""
    plugin = subprocess.run(["docker", "compose", "version"], env=environment, capture_output=True)
    return ["docker", "compose"] if plugin.returncode == 0 else [str(from_pypi(venv, REQUIREMENTS.read_text().split()) / "docker-compose")]


def from_pypi(venv, packages):
    """The folder of the programs of these packages, which are installed into `venv` when they are not there."""
    installed = venv / "installed.txt"
    wanted = "\n".join(packages)
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
        installed.write_text(wanted)
    return venv / "bin"
