"""Carries out the stages of the Dockerfile: the build stage on this machine, the others in Debian trees, or in none (`FROM scratch`)."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from context import place, targets
from debian import Tree
from dockerfile import DockerfileError


class BuildStage:
    """A `FROM swift:…` stage, carried out on this machine in a copy of the sources.

    The copy stays in the cache with its `.build`, so a second run compiles only what changed. Absolute paths of the
    stage exist only as WORKDIR, which is that copy. `apt-get` is answered by Scripts/ensure-packages: what is installed
    is left alone, the rest is installed by this machine's own apt-get.
    """

    def __init__(self, stage, context, folder, work):
        self.stage, self.context, self.folder = stage, context, Path(folder)
        self.workdir = None
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("VIGLA_")}
        self.environment["PATH"] = f"{self.apt_stand_in(Path(work))}:{self.environment['PATH']}"

    def apt_stand_in(self, work):
        folder = work / "apt"
        folder.mkdir(parents=True)
        script = folder / "apt-get"
        script.write_text(f"""#!/bin/bash
case "$1" in
update) ;;
install) shift; names=(); for word in "$@"; do [[ $word == -* ]] || names+=("$word"); done
         PATH=${{PATH#*:}} exec '{self.context.root}/Scripts/ensure-packages' "${{names[@]}}" ;;
*) echo "apt-get $1 is not known in the build stage" >&2; exit 1 ;;
esac
""")
        script.chmod(0o755)
        return folder

    def copies(self):
        """(step, file, place in the copy) for everything the stage copies out of the context."""
        for step in self.stage.steps:
            if step.keyword == "COPY":
                if step.flags:
                    raise DockerfileError(step.line, "COPY with options is not known in the build stage")
                *sources, destination = step.words
                for source in sources:
                    files = self.context.files(source)
                    if not files:
                        raise DockerfileError(step.line, f"COPY {source}: nothing in the build context")
                    folder = destination.endswith("/") or destination == "." or len(sources) > 1
                    for path, target in targets(files, source, destination, folder):
                        yield step, path, self.folder / target

    def run(self, say):
        copies = list(self.copies())
        self.remove_stale({target for _, _, target in copies})
        for step in self.stage.steps:
            if step.keyword == "WORKDIR":
                if self.workdir:
                    raise DockerfileError(step.line, "a second WORKDIR is not known in the build stage")
                self.workdir = step.words[0]
            elif step.keyword == "COPY":
                say(f"COPY {step.text}")
                for _, path, target in (copy for copy in copies if copy[0] is step):
                    place(path, target)
            elif step.keyword in ("ENV", "ARG"):
                self.environment.update(step.pairs)
            elif step.keyword == "RUN":
                say(f"RUN {step.text}")
                subprocess.run(step.words, cwd=self.folder, env=self.environment, check=True, stdin=subprocess.DEVNULL)
            else:
                raise DockerfileError(step.line, f"{step.keyword} is not known in the build stage")

    def remove_stale(self, wanted):
        """Leaves what will be copied and what SwiftPM made; a file deleted from the sources must not live on here."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for folder, folders, names in os.walk(self.folder):
            if Path(folder) == self.folder:
                folders[:] = [name for name in folders if name != ".build"]
                names = [name for name in names if name != "Package.resolved"]
            for name in names:
                if Path(folder, name) not in wanted:
                    Path(folder, name).unlink()


class BuiltProgram:
    """What the build stage has made, as later stages copy it out of there."""

    def __init__(self, binary, inside):
        self.binary, self.inside = Path(binary).resolve(strict=True), inside

    def path(self, step, source):
        """This machine's path of a file that a later stage copies out of the build stage."""
        if source != self.inside:
            raise DockerfileError(step.line, f"COPY --from takes {self.inside} out of the build stage, not {source}")
        return self.binary


@dataclass
class Image:
    """A stage behind the build stage, carried out: its tree, and what `docker run` would need to know."""

    tree: Tree
    environment: dict = field(default_factory=dict)
    user: str = "root"
    workdir: str = "/"
    entrypoint: list = field(default_factory=list)
    command: list = field(default_factory=list)
    health: list = field(default_factory=list)
    volumes: list = field(default_factory=list)
    ports: list = field(default_factory=list)
    stop_signal: str = "SIGTERM"

    def build(self, stage, context, built, say):
        """`built`: stage name → BuiltProgram or Image."""
        arguments = {}                             # build arguments: with their defaults here, and not kept in the image
        for step in stage.steps:
            say(f"{step.keyword} {step.text}")
            match step.keyword:
                case "RUN":
                    done = self.tree.run(step.words, self.user, arguments | self.environment, self.workdir,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                    if done.returncode:
                        raise DockerfileError(step.line, f"the step ended with {done.returncode}\n{done.stdout}")
                case "COPY":
                    self.copy(step, context, built)
                case "ENV":
                    self.environment.update(step.pairs)
                case "ARG":
                    arguments.update(step.pairs)
                case "USER":
                    self.user = step.words[0]
                case "WORKDIR":
                    self.workdir = step.words[0]
                    self.tree.inside(self.workdir).mkdir(parents=True, exist_ok=True)
                case "VOLUME":
                    self.volumes += step.words
                    self.tree.inside(step.words[0]).mkdir(parents=True, exist_ok=True)
                case "EXPOSE":
                    self.ports.append(int(re.fullmatch(r"(\d+)(/tcp)?", step.words[0])[1]))
                case "ENTRYPOINT":
                    self.entrypoint, self.command = step.words, []
                case "CMD":
                    self.command = step.words
                case "HEALTHCHECK":
                    self.health = step.words
                case "STOPSIGNAL":
                    self.stop_signal = step.words[0]
                case "LABEL":
                    pass
                case other:
                    raise DockerfileError(step.line, f"{other} is not known in the run stage")
        return self

    def copy(self, step, context, built):
        *sources, destination = step.words
        if not destination.startswith("/"):
            raise DockerfileError(step.line, "COPY takes an absolute destination in the run stage")
        inside = self.tree.inside(destination)
        folder = destination.endswith("/") or len(sources) > 1 or inside.is_dir()
        uid, gid = 0, 0
        if owner := step.flags.get("chown"):
            uid, gid, _ = self.tree.ids(owner)
        for source in sources:
            if origin := step.flags.get("from"):
                if origin not in built:
                    raise DockerfileError(step.line, f"there is no stage {origin!r}")
                if isinstance(built[origin], Image):
                    self.copy_of_image(built[origin].tree.inside(source), inside, step.flags.get("chown") and f"{uid}:{gid}")
                    continue
                files = [("", built[origin].path(step, source))]
            else:
                files = context.files(source)
            if not files:
                raise DockerfileError(step.line, f"COPY {source}: nothing in the build context")
            for path, target in targets(files, source, inside, folder):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
                os.chown(target, uid, gid)

    @staticmethod
    def copy_of_image(source, inside, owner):
        """A file, or what is in a folder, with owners, modes and links, as between stages."""
        if source.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", f"{source}/." if source.is_dir() else source, inside], check=True)
        if owner:
            subprocess.run(["chown", "-R", owner, inside], check=True)

    def missing_libraries(self, program):
        """Names the loader cannot find in the image for `program` (a path in it)."""
        loader = next("/" + str(path.relative_to(self.tree.root)) for folder in ("lib64", "lib")
                      for path in self.tree.root.glob(f"{folder}/ld-linux*"))
        said = self.tree.run([loader, "--list", program], capture_output=True, text=True)
        return re.findall(r"(\S+) => not found", said.stdout)
