"""A Debian tree to stand for a `debian:…` image: debootstrap once, kept as an archive, unpacked for every run.

The caller has its own mount and process namespaces (see `run`): mounts made here and processes started in the tree end
with it, whatever happens.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"
FRESH_DAYS = 30    # an older archive is built again, as a pulled image would be newer

# The environment that Docker gives a process without ENV and `-e`.
BASE_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


class Tree:
    def __init__(self, root):
        self.root = Path(root)

    @staticmethod
    def archive(suite, cache, packages=()):
        """A minimal tree of `suite` with these packages as an archive of that name in `cache` (made when missing or old)."""
        mirror = os.environ.get("VIGLA_DEBIAN_MIRROR", MIRROR)
        archive = Path(cache) / f"debian-{'+'.join([suite, *packages])}.tar.gz"
        with (Path(cache) / "debian.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)           # another test may need the same one
            Tree.make_archive(archive, suite, mirror, packages)
        return archive

    @staticmethod
    def make_archive(archive, suite, mirror, packages):
        if not archive.exists() or time.time() - archive.stat().st_mtime > FRESH_DAYS * 86400:
            making = archive.with_suffix(".new")
            shutil.rmtree(making, ignore_errors=True)
            included = [f"--include={','.join(packages)}"] if packages else []
            subprocess.run(["debootstrap", "--variant=minbase", *included, suite, making, mirror], check=True, stdin=subprocess.DEVNULL)
            shutil.rmtree(making / "var/cache/apt/archives", ignore_errors=True)
            if mirror == MIRROR:
                (making / "etc/apt/sources.list").write_text(
                    f"deb {mirror} {suite} main\ndeb {mirror} {suite}-updates main\n"
                    f"deb {mirror}-security {suite}-security main\n")
            partial = archive.with_suffix(".partial")
            subprocess.run(["tar", "--numeric-owner", "--use-compress-program=gzip -1", "-C", making, "-cf", partial, "."],
                           check=True)
            partial.rename(archive)
            shutil.rmtree(making)

    @staticmethod
    def unpacked(suite, root, cache, packages=()):
        """That tree at `root`."""
        archive = Tree.archive(suite, cache, packages)
        Path(root).mkdir(parents=True)
        subprocess.run(["tar", "--numeric-owner", "-C", root, "-xpzf", archive], check=True)
        tree = Tree(root)
        (tree.root / "var/cache/apt/archives/partial").mkdir(parents=True, exist_ok=True)
        for name in ("resolv.conf", "hosts"):      # as Docker does
            if Path("/etc", name).exists():
                shutil.copyfile(Path("/etc", name), tree.root / "etc" / name)
        mount("-t", "proc", "proc", tree.root / "proc")
        return tree

    @staticmethod
    def empty(root):
        """What `FROM scratch` begins with."""
        Path(root).mkdir(parents=True)
        (Path(root) / "proc").mkdir()
        return Tree(root)

    def inside(self, path):
        """The host's path for a path of the tree."""
        return self.root / str(path).lstrip("/")

    def ids(self, user):
        """(uid, gid, home) of a USER value `name`, `uid` or `uid:gid`, from the tree's own passwd."""
        name, _, group = user.partition(":")
        for entry in self.inside("/etc/passwd").read_text().splitlines():
            login, _, uid, gid, _, home, _ = entry.split(":")
            if name in (login, uid):
                return int(uid), int(group or gid), home
        if name.isdigit():
            return int(name), int(group or 0), "/"
        raise LookupError(f"USER {user}: no such user in the image")

    def command(self, words, user, environment, workdir="/", confined=False):
        """The host's argument vector that runs `words` in the tree. `confined`: no capabilities, none to be gained."""
        uid, gid, home = self.ids(user)
        how = {"root": str(self.root), "uid": uid, "gid": gid, "folder": workdir, "words": list(words), "confined": confined,
               "environment": {**BASE_ENVIRONMENT, "HOME": home, **environment}}
        return [sys.executable, str(Path(__file__).with_name("enter.py")), json.dumps(how)]

    def run(self, words, user="root", environment={}, workdir="/", **options):
        return subprocess.run(self.command(words, user, environment, workdir), stdin=subprocess.DEVNULL, **options)

    def make_read_only(self, *, volumes, scratch):
        """What `read_only: true` does: the root can only be read; `volumes` stay writable, `scratch` is memory."""
        mount("--bind", self.root, self.root)
        mount("-t", "proc", "proc", self.inside("/proc"))
        for path in volumes:
            mount("--bind", self.inside(path), self.inside(path))
        for path in scratch:
            mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", self.inside(path))
        mount("-o", "remount,bind,ro", self.root)


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)
