"""Reads the part of the Dockerfile language that Vigla's Dockerfile uses; anything else is an error, never a guess.

    stages = parse(text)        # [Stage(base, name, steps=[Step(line, keyword, …)])]

Reference: https://docs.docker.com/reference/dockerfile/
"""

import json
import re
import shlex
from dataclasses import dataclass, field


class DockerfileError(Exception):
    """Something in the Dockerfile that this reader, or the runner, does not know how to carry out."""

    def __init__(self, line, message):
        super().__init__(f"Dockerfile:{line}: {message}")


@dataclass
class Step:
    line: int
    keyword: str
    text: str                                      # the rest of the line, continuations joined
    flags: dict = field(default_factory=dict)      # --name=value, where the keyword allows them
    words: list = field(default_factory=list)      # arguments; for RUN, CMD and ENTRYPOINT the argument vector
    pairs: dict = field(default_factory=dict)      # ENV, LABEL and ARG


@dataclass
class Stage:
    base: str
    name: str | None
    steps: list


def parse(text):
    """The stages in order. Raises DockerfileError at the first thing that is not understood."""
    stages = []
    for line, logical in logical_lines(text):
        keyword, _, rest = logical.partition(" ")
        keyword, rest = keyword.upper(), rest.strip()
        if keyword == "FROM":
            stages.append(read_from(line, rest))
            continue
        if not stages:
            raise DockerfileError(line, f"{keyword} before the first FROM")
        reader = READERS.get(keyword)
        if reader is None:
            raise DockerfileError(line, f"the instruction {keyword} is not known here")
        stages[-1].steps.append(reader(Step(line, keyword, rest)))
    if not stages:
        raise DockerfileError(1, "there is no FROM")
    return stages


def logical_lines(text):
    """(line number, text) of each instruction: comments and blank lines dropped, continuations joined."""
    started, parts = 0, []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if re.match(r"#\s*(syntax|escape|check)\s*=", line, re.I):
            raise DockerfileError(number, "parser directives are not known here")
        if not line or line.startswith("#"):       # also between continued lines, as in Docker
            continue
        if not parts:
            started = number
        if line.endswith("\\"):
            parts.append(line[:-1].strip())
            continue
        parts.append(line)
        yield started, " ".join(parts)
        parts = []
    if parts:
        raise DockerfileError(started, "the file ends inside a continued line")


def read_from(line, rest):
    match = re.fullmatch(r"([\w./:@-]+)(?:\s+AS\s+([\w.-]+))?", rest, re.I)
    if not match:
        raise DockerfileError(line, f"this form of FROM is not known here: {rest}")
    return Stage(base=match[1], name=match[2], steps=[])


def take_flags(step, allowed):
    """Moves leading --name=value words from the text to `flags`."""
    while match := re.match(r"--([\w-]+)=(\S+)(?:\s+|$)", step.text):
        if match[1] not in allowed:
            raise DockerfileError(step.line, f"{step.keyword} --{match[1]} is not known here")
        step.flags[match[1]] = match[2]
        step.text = step.text[match.end():]
    if step.text.startswith("--"):
        raise DockerfileError(step.line, f"this form of {step.keyword} is not known here: {step.text}")


def no_variables(step):
    if "$" in step.text:
        raise DockerfileError(step.line, f"variables in {step.keyword} are not known here")


def read_command(step):
    """RUN, CMD, ENTRYPOINT: the exec form as it stands, the shell form as /bin/sh -c."""
    take_flags(step, allowed=())
    if step.text.startswith("["):
        try:
            step.words = json.loads(step.text)
        except ValueError:
            raise DockerfileError(step.line, "not a JSON list of strings, so Docker would take it as a shell line")
        if not step.words or not all(isinstance(word, str) for word in step.words):
            raise DockerfileError(step.line, "the exec form is a list of strings")
    elif "<<" in step.text:
        raise DockerfileError(step.line, "here-documents are not known here")
    elif not step.text:
        raise DockerfileError(step.line, f"{step.keyword} without a command")
    else:
        step.words = ["/bin/sh", "-c", step.text]
    return step


def read_copy(step):
    take_flags(step, allowed=("from", "chown"))
    no_variables(step)
    if step.text.startswith("[") or "<<" in step.text or re.search(r"[*?]", step.text):
        raise DockerfileError(step.line, "COPY takes plain paths here")
    step.words = step.text.split()
    if len(step.words) < 2:
        raise DockerfileError(step.line, "COPY needs a source and a destination")
    return step


def read_pairs(step):
    no_variables(step)
    for word in shlex.split(step.text):
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise DockerfileError(step.line, f"{step.keyword} takes NAME=value here, not {word!r}")
        step.pairs[name] = value
    return step


def read_one_word(step):
    no_variables(step)
    step.words = step.text.split()
    if len(step.words) != 1 or step.text.startswith("["):
        raise DockerfileError(step.line, f"{step.keyword} takes one plain word here")
    return step


def read_healthcheck(step):
    take_flags(step, allowed=("interval", "timeout", "start-period", "retries"))
    command = re.match(r"CMD\s+(.*)", step.text)
    if not command:
        raise DockerfileError(step.line, "HEALTHCHECK takes CMD here")
    inner = read_command(Step(step.line, "HEALTHCHECK CMD", command[1]))
    step.words = inner.words
    return step


READERS = {
    "RUN": read_command, "CMD": read_command, "ENTRYPOINT": read_command,
    "COPY": read_copy, "ENV": read_pairs, "LABEL": read_pairs, "ARG": read_pairs,
    "USER": read_one_word, "WORKDIR": read_one_word, "VOLUME": read_one_word, "EXPOSE": read_one_word,
    "STOPSIGNAL": read_one_word, "HEALTHCHECK": read_healthcheck,
}
