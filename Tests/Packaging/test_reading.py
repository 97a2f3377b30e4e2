"""Tests of the two readers: what they take apart, and what they refuse."""

import unittest
from pathlib import Path

from context import Ignore, targets
from dockerfile import DockerfileError, parse


class DockerfileReading(unittest.TestCase):
    def test_stages_twoFroms_haveNamesAndBases(self):
        stages = parse("FROM swift:6.3-bookworm AS build\nFROM debian:bookworm-slim\n")
        self.assertEqual([(stage.base, stage.name) for stage in stages],
                         [("swift:6.3-bookworm", "build"), ("debian:bookworm-slim", None)])

    def test_run_continuedWithComments_isOneShellLine(self):
        step = parse("FROM a\nRUN one \\\n  # why\n\n  && two\n")[0].steps[0]
        self.assertEqual((step.line, step.words), (2, ["/bin/sh", "-c", "one && two"]))

    def test_entrypoint_execForm_isTheArgumentVector(self):
        self.assertEqual(parse('FROM a\nENTRYPOINT ["/bin/a", "b c"]\n')[0].steps[0].words, ["/bin/a", "b c"])

    def test_healthcheck_optionsAndCommand_areApart(self):
        step = parse("FROM a\nHEALTHCHECK --interval=10s \\\n --retries=3 CMD x $Y\n")[0].steps[0]
        self.assertEqual(step.flags, {"interval": "10s", "retries": "3"})
        self.assertEqual(step.words, ["/bin/sh", "-c", "x $Y"])

    def test_env_severalPairsAndQuotes_areKept(self):
        self.assertEqual(parse('FROM a\nENV A=1 \\\n B="x y"\n')[0].steps[0].pairs, {"A": "1", "B": "x y"})

    def test_arg_withAndWithoutValue_areKept(self):
        self.assertEqual([step.pairs for step in parse("FROM a\nARG A=1\nARG B=\n")[0].steps], [{"A": "1"}, {"B": ""}])

    def test_copy_fromAndOwner_areFlags(self):
        step = parse("FROM a\nCOPY --from=build --chown=1:2 /x /y\n")[0].steps[0]
        self.assertEqual((step.flags, step.words), ({"from": "build", "chown": "1:2"}, ["/x", "/y"]))

    def test_unknownThings_areErrorsWithTheirLine(self):
        for bad in ("ADD x /y", "ARG A", "SHELL [\"x\"]", "ONBUILD RUN x", "RUN --mount=type=cache,target=/x y",
                    "RUN <<END", "RUN", "RUN [not json]", "COPY --link x y", "COPY *.txt /x", "COPY $A /x", "COPY one",
                    "ENV A 1", "ENV A=$B", "HEALTHCHECK NONE", "HEALTHCHECK --start-interval=1s CMD x", "USER a b",
                    'VOLUME ["/a", "/b"]', "EXPOSE 1 2", "WORKDIR $HOME"):
            with self.subTest(bad), self.assertRaisesRegex(DockerfileError, "^Dockerfile:2: "):
                parse(f"FROM a\n{bad}\n")
        for bad in ("", "RUN x\n", "# syntax=docker/dockerfile:1\nFROM a\n", "FROM --platform=x a\n", "FROM $A\n",
                    "FROM a\nRUN x \\\n"):
            with self.subTest(bad), self.assertRaises(DockerfileError):
                parse(bad)


class IgnoreReading(unittest.TestCase):
    def test_everythingButNamed_letsNamedFoldersThrough(self):
        ignore = Ignore("*\n!Sources\n!LICENSE\n**/.build\n")
        kept = ["Sources", "Sources/A/b.swift", "LICENSE"]
        out = ["README.md", "data/x", ".git/config", "Sources/A/.build/x", "LICENSES"]
        self.assertEqual([ignore.excludes(path) for path in kept + out], [False] * len(kept) + [True] * len(out))

    def test_lastMatchingLine_decides(self):
        self.assertFalse(Ignore("a\n!a\n").excludes("a/b"))
        self.assertTrue(Ignore("!a\na\n").excludes("a/b"))

    def test_star_staysInsideOneFolder(self):
        self.assertTrue(Ignore("a/*.txt").excludes("a/x.txt"))
        self.assertFalse(Ignore("a/*.txt").excludes("a/b/x.txt"))

    def test_unknownPattern_isAnError(self):
        with self.assertRaises(ValueError):
            Ignore("a[bc]")


class Copying(unittest.TestCase):
    def test_folder_itsContentsGoBelowTheDestination(self):
        self.assertEqual(list(targets([("b/c", Path("/s/b/c"))], "s", "/d", into_folder=False)),
                         [(Path("/s/b/c"), Path("/d/b/c"))])

    def test_file_becomesTheDestinationOrGoesIntoIt(self):
        for into_folder, place in ((False, "/d"), (True, "/d/f")):
            self.assertEqual(list(targets([("", Path("/s/f"))], "s/f", "/d", into_folder)), [(Path("/s/f"), Path(place))])


if __name__ == "__main__":
    unittest.main()
