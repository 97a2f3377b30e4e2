"""The fenced blocks of README.md and of docs/, and what is said about each: who executes it, or why nobody does.

    <!-- tested: package -->          the line before a block that the test of this name executes
    <!-- not tested: why -->          everything else that begins with `not tested`, with its reason
"""

import re
from dataclasses import dataclass


@dataclass
class Block:
    line: int
    language: str
    text: str
    note: str        # the text of the comment before it, or ''

    @property
    def test(self):
        """The test that executes it, or None."""
        return self.note.removeprefix("tested: ") if self.note.startswith("tested: ") else None


def blocks(text):
    found, note, inside = [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        if inside is not None:
            if line.strip() == "```":
                found.append(Block(inside[0], inside[1], "\n".join(inside[2]) + "\n", note))
                inside, note = None, ""
            else:
                inside[2].append(line)
        elif line.startswith("```"):
            inside = (number, line[3:].strip(), [])
        elif match := re.fullmatch(r"<!--\s*(.*?)\s*-->", line.strip()):
            note = match[1]
        elif line.strip():
            note = ""
    return found


def unmarked(text):
    """Blocks of which nothing is said."""
    return [block for block in blocks(text)
            if not (block.test or re.match(r"not tested( as it stands)?: \S", block.note))]
