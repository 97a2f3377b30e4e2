"""A Compose project of the test: one of the repository's compose files, with images and settings of the test's own."""

import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# If root may not raise the limit on open files, containers cannot have the compose files' limit.
OPEN_FILES = min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


class Project:
    """Has a copy of the folder `config`, with `accounts` added to accounts.json, and ends with its volumes.

    `images`: service → image. `environment`: of Compose, as somebody would set it who types `docker compose`.
    """

    def __init__(self, engine, compose, file, work, images, profiles=(), accounts={}, **environment):
        self.engine, self.compose = engine, compose
        self.name = f"vigla-test-{Path(file).stem.replace('.', '-')}"
        own = Path(tempfile.mkdtemp(dir=work))
        self.config = own / "config"
        shutil.copytree(ROOT / "config", self.config)
        given = json.loads((self.config / "accounts.json").read_text())
        (self.config / "accounts.json").write_text(json.dumps({**given, **accounts}))
        override = own / "override.yaml"
        override.write_text("services:\n" + "".join(
            f"  {name}:\n    image: {image}\n    ulimits: {{ nofile: {OPEN_FILES} }}\n" for name, image in images.items()))
        self.words = [*compose, "--project-directory", str(ROOT), "-p", self.name, "-f", str(ROOT / file), "-f", str(override),
                      *(word for profile in profiles for word in ("--profile", profile))]
        self.environment = {**engine.environment, "VIGLA_CONFIG": str(self.config), **environment}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print(self.run("ps", "--all", may_fail=True), self.run("logs", "--tail", "40", may_fail=True))
        self.run("down", "--volumes", "--timeout", "5", may_fail=True)

    def run(self, *words, may_fail=False):
        done = subprocess.run([*self.words, *words], env=self.environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode and not may_fail:
            raise OSError(f"docker compose {' '.join(words)} ended with {done.returncode}\n{done.stdout[-6000:]}")
        return done.stdout

    def up(self, *services):
        """Everything runs and is healthy afterwards, or this fails."""
        self.run("up", "--detach", "--no-build", "--wait", "--wait-timeout", "180", *services)

    def container(self, service):
        """What `docker inspect` says of the service's container."""
        return self.engine.inspect(self.run("ps", "--all", "--quiet", service).split()[-1])

    def healthy_with(self, service, holds):
        """Whether within two minutes the service's container is healthy and `holds` is true of it."""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            container = self.container(service)
            if container["State"]["Health"]["Status"] == "healthy" and holds(container):
                return True
            time.sleep(0.1)
        return False

    def file(self, service, path):
        """The text of a file in the service's container."""
        packed = subprocess.run(["docker", "cp", f"{self.container(service)['Id']}:{path}", "-"], env=self.engine.environment,
                                stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
        return subprocess.run(["tar", "-xO"], input=packed, capture_output=True, check=True).stdout.decode()


def confined(container, user):
    """What does not hold of: no root, no capabilities, none to be gained, a root that can only be read."""
    status = Path(f"/proc/{container['State']['Pid']}/status").read_text()
    held = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    wrong = []
    if held["Uid"].split() != [str(user)] * 4:
        wrong.append(f"it runs as {held['Uid'].split()[0]}")
    if int(held["CapBnd"], 16) or int(held["CapEff"], 16):
        wrong.append("it has capabilities")
    if held["NoNewPrivs"] != "1":
        wrong.append("it may gain privileges")
    if not container["HostConfig"]["ReadonlyRootfs"]:
        wrong.append("its root can be written to")
    return wrong


def kill(container):
    """As the kernel does where memory ends: the engine hears of it afterwards."""
    os.kill(container["State"]["Pid"], 9)
