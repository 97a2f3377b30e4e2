"""Executes the examples of docs/rest.md as they stand there, and compares what they print with what is shown."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Python"))
from hub import Hub  # noqa: E402

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rest.md"
ADDRESS = "http://127.0.0.1:9000"
KEY = re.compile(r"-[-0-9A-Z_a-z]{19}")


class DocsTest(unittest.TestCase):
    def test_examples_print_what_is_shown(self):
        text = PAGE.read_text()
        examples = re.findall(r"^```sh\n(.*?)^```\n```\n(.*?)^```$", text, re.S | re.M)
        self.assertGreaterEqual(len(examples), 10)
        self.assertEqual(len(examples), text.count("```sh\n"), "every example shows what it prints")
        rules = re.search(r"^```json\n(.*?)^```$", text, re.S | re.M).group(1)
        hub = Hub("--dev", "--memory", rules=rules)
        try:
            for commands, shown in examples:
                with self.subTest(commands):
                    self.assertIn(ADDRESS, commands)
                    ran = subprocess.run(["bash", "-c", commands.replace(ADDRESS, hub.url)], capture_output=True, text=True, timeout=60)
                    self.assertEqual(KEY.sub("-KEY", ran.stdout).rstrip("\n"), shown.rstrip("\n"), ran.stderr)
        finally:
            hub.stop()


if __name__ == "__main__":
    unittest.main()
