"""The build context: the repository's files as .dockerignore lets them through, and COPY out of it.

Reference: https://docs.docker.com/build/concepts/context/#dockerignore-files
"""

import filecmp
import os
import re
import shutil
from pathlib import Path


class Ignore:
    """Rules of a .dockerignore: the last line that matches a path, or a folder above it, decides."""

    def __init__(self, text):
        self.rules = []
        for line in text.splitlines():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            kept = line.startswith("!")
            pattern = line.lstrip("!").strip("/")
            if re.search(r"[\[\]\\?]", pattern):
                raise ValueError(f".dockerignore: the pattern {line!r} is not known here")
            self.rules.append((re.compile(expression(pattern)), kept))

    def excludes(self, path):
        """Whether `path` (relative, with slashes) stays out of the context."""
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        excluded = False
        for rule, kept in self.rules:
            if any(rule.fullmatch(each) for each in above):
                excluded = not kept
        return excluded


def expression(pattern):
    """`**` crosses folders, `*` stays inside one."""
    out = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
    return out.replace(r"\*", "[^/]*")


class Context:
    def __init__(self, root):
        self.root = Path(root)
        self.ignore = Ignore((self.root / ".dockerignore").read_text())

    def files(self, source):
        """(path below `source`, absolute path) of every file in the context at `source`; a file is itself, under ''."""
        start = self.root / source
        if start.is_file():
            return [] if self.ignore.excludes(source.removeprefix("./")) else [("", start)]
        found = []
        for folder, _, names in os.walk(start):
            for name in names:
                path = Path(folder, name)
                if not self.ignore.excludes(path.relative_to(self.root).as_posix()):
                    found.append((path.relative_to(start).as_posix(), path))
        return sorted(found)


def targets(files, source, destination, into_folder):
    """Where COPY puts each file: a folder's contents go below `destination`; a file becomes it, or goes into it."""
    for below, path in files:
        if below:
            yield path, Path(destination) / below
        elif into_folder:
            yield path, Path(destination) / Path(source).name
        else:
            yield path, Path(destination)


def place(path, target):
    """Copies one file with its mode and time, unless the same content is there (a build system would look again)."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if not (target.is_file() and filecmp.cmp(path, target, shallow=False)):
        shutil.copy2(path, target)
