"""Executes the examples of docs/clients.md and docs/first-apps.md as they stand there, against the real hub, and compares what they print. Run
through Tests/Clients/run.

    <!-- tested: clients -->          a program in JavaScript or Python; the block behind it is what it prints
    <!-- tested: clients rules -->    the rules of the hub of the program behind them; other programs have an open hub without rules
    <!-- tested: clients swift -->    an excerpt of Tests/ViglaClientTests, which compiles and executes it
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Tests/Packaging")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402
from readme import blocks  # noqa: E402

ADDRESS = "http://127.0.0.1:9000"
PROGRAMS = {"clients.md": ["js", "js", "python"], "first-apps.md": ["python"]}
COMMANDS = {"js": ["node", "example.mjs"], "python": [sys.executable, "example.py"]}
FILES = ["web/vigla.js", "web/vigla-node.js", "web/package.json", "Examples/clients/python/vigla.py"]


class Examples(unittest.TestCase):
    def test_print_what_stands_behind_them(self):
        for page, languages in PROGRAMS.items():
            found = blocks((ROOT / "docs" / page).read_text())
            programs = [(before, block, behind) for before, block, behind in zip(found, found[1:], found[2:])
                        if block.test == "clients" and block.language]
            self.assertEqual(sorted(block.language for _, block, _ in programs), languages)
            rules = [block.line for block in found if block.test == "clients rules"]
            self.assertEqual([before.line for before, *_ in programs if before.test == "clients rules"], rules, "rules of no program")
            for before, block, behind in programs:
                self.assertEqual((behind.language, behind.test), ("", "clients"), f"{page}:{block.line}: what does it print?")
                with self.subTest(f"{page}:{block.line}"):
                    self.assertEqual(self.printed(block, before.text if before.test == "clients rules" else None), behind.text)

    def test_swift_isCompiledAndExecuted_byTheClientsTests(self):
        excerpts = [block.text for block in blocks((ROOT / "docs/clients.md").read_text()) if block.test == "clients swift"]
        tests = (ROOT / "Tests/ViglaClientTests/HubClientTests.swift").read_text()
        inside = tests.split("// begin of docs/clients.md\n")[1].split("// end of docs/clients.md")[0]
        self.assertEqual(len(excerpts), 1)
        self.assertTrue(excerpts[0].endswith(textwrap.dedent(inside).rstrip() + "\n"), excerpts[0])

    def printed(self, block, rules):
        command = COMMANDS[block.language]
        with tempfile.TemporaryDirectory(prefix="vigla-clients-") as folder:
            for file in FILES:
                (Path(folder) / Path(file).name).write_bytes((ROOT / file).read_bytes())
            hub = Hub("--dev", "--memory", rules=rules)
            try:
                (Path(folder) / command[1]).write_text(block.text.replace(ADDRESS, hub.url))
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=120, env={"PATH": os.environ["PATH"]})
            finally:
                hub.stop()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout


class Sizes(unittest.TestCase):
    def test_client_of_pages_isSmall_asItIsServed(self):
        hub = Hub("--dev", "--memory", "--web", str(ROOT / "web"))
        try:
            served = subprocess.run(["curl", "-sS", "-H", "Accept-Encoding: gzip", f"{hub.url}/.console/vigla.js"], capture_output=True).stdout
        finally:
            hub.stop()
        self.assertGreater(len(served), 1000)
        self.assertLessEqual(len(served), 10_000)


if __name__ == "__main__":
    unittest.main()
