"""Executes the blocks of docs/*.md that say so, as they stand there, and looks whether something is said about every block.

    <!-- tested: docs dev -->       typed into a shell (or node) at a development hub
    <!-- tested: docs closed -->    at a hub of its own folder ./data, closed, with the secret of its first start
    <!-- tested: docs stopped -->   in the folder of a hub that does not run
    <!-- tested: docs rules -->     the rules of the page's development hub
    <!-- tested: docs file NAME --> a file, which the commands of `FILES` read

The blocks of a page and a kind are one session, from top to bottom: each command must end well. `Tests/Packaging/readme.py` reads them.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python"), str(ROOT / "Tests/Packaging")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402
from readme import blocks, unmarked  # noqa: E402

# The tour has drawings, which are not typed.
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "tour.md")
KINDS = ["docs dev", "docs closed", "docs stopped", "docs rules"]
ADDRESS = "http://127.0.0.1:9000"
# Paths of the Debian package, as they are in the session's folder.
PATHS = {"/var/lib/vigla/data": "data", "/etc/vigla/rules.json": "rules.json"}
CLOSED = '{"rules":{"users":{"$uid":{".read":"auth.uid === $uid",".write":"auth.uid === $uid"}}}}'

# Files that a page assumes.
BEFORE = {
    ("operations.md", "docs closed"):
        f"vigla user add {ADDRESS} --email ana@example.org --no-password --auth-file ./data/admin-secret.txt\n",
    ("accounts.md", "docs closed"): "echo 'correct horse battery' > password.txt\n",
}
# How the files of a page are used. Those of other pages are in the folder of their sessions.
FILES = {
    "rules.md": "vigla rules check rules.json\nvigla rules test rules.json cases.json\n"
                "vigla rules explain --list rules.json | diff words.txt -\n",
    "assistants.md": "vigla rules check --strict rules.json\nvigla rules test --require-coverage rules.json cases.json\n",
    "passwords-and-mail.md": "vigla doctor --memory --port 0 --accounts accounts.json\n",
}
# Blocks that other tests run.
ELSEWHERE = [("rest.md", "rest"), ("observe-protocol.md", "observe"), ("observe-protocol.md", "observe rules"),
             ("observe-protocol.md", "observe alone"), ("clients.md", "clients"),
             ("clients.md", "clients rules"), ("clients.md", "clients swift"), ("accounts.md", "browser"), ("moving-in.md", "drills"),
             ("proxies.md", "proxies"), ("deploy.md", "package"), ("first-apps.md", "browser"), ("first-apps.md", "browser rules"),
             ("first-apps.md", "clients"), *(("notifications.md", kind) for kind in (
                 "push", "push browser", "push webhook", *(f"push file {name}" for name in ("hub.json", "rules.json", "worker.js", "page.html"))))]
# The output of a session, as a regular expression.
SAYS = {
    ("first-apps.md", "docs dev"): r'(?ms)^\{"title":"Lunch\?","votes":2\}$.*^null$',
    ("recipes.md", "docs dev"): r'(?ms)^\{"author":"\w+","comments":1,"text":"Hello"\}$.*^null$',
}
# Actions while a program of a page runs, and its output after them.
MEANWHILE = {
    "observe-protocol.md": (f"vigla set {ADDRESS}/timeline/ana/p1 '{{\"text\":\"hello\"}}'", "added p1 { text: 'hello' }"),
}


class EveryBlock(unittest.TestCase):
    def test_is_executed_or_says_why_not(self):
        for page in PAGES:
            text = (ROOT / "docs" / page).read_text()
            blank = unmarked(text)
            if page == "rest.md":
                # Tests/AdminSDK/docs_test.py runs all of its shell blocks, and compares their output with the next
                # block.
                blank = [block for block in blank if block.language not in ("sh", "")]
            if page == "observe-protocol.md":
                # ObserveDocumentTests run its conversations with a hub, and compare the hub's messages.
                self.assertIn("observe", [block.test for block in blocks(text)])
                for block in blocks(text):
                    self.assertTrue(block.test or not re.search("[→←]", block.text), f"{page}:{block.line}: a conversation that is not held")
            if page in ("rules-extensions.md", "recipes.md"):
                # DocumentationTests of the rules' target run every rules file of them with the cases after it.
                blank = [block for block in blank if block.language != "jsonc"]
            self.assertEqual([f"{page}:{block.line}" for block in blank], [], "nothing is said about these blocks")
            for block in blocks(text):
                is_known = block.test in (None, *KINDS) or block.test.startswith("docs file ") or (page, block.test) in ELSEWHERE
                self.assertTrue(is_known, f"{page}:{block.line}: who is '{block.test}'?")

    def test_commands_stand_in_blocks(self):
        for page in PAGES:
            for number, line in enumerate((ROOT / "docs" / page).read_text().splitlines(), 1):
                self.assertFalse(re.match(r"    (vigla|curl|VIGLA_\w+=)", line), f"{page}:{number}: an indented command is not executed")


class EveryLink(unittest.TestCase):
    PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md")))]

    @staticmethod
    def anchors(page):
        """As GitHub makes them of headings."""
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in re.findall(r"^#+ (.*)", text, re.M)}

    def test_pages_linkToFilesAndHeadings(self):
        for name in self.PAGES:
            page = ROOT / name
            links = [link for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()) if not re.match("https?:|mailto:", link)]
            for file, _, heading in (link.partition("#") for link in links):
                target = page.parent / file if file else page
                self.assertTrue(target.exists(), f"{name}: {file} is not there")
                if heading:
                    self.assertIn(heading, self.anchors(target), f"{name}: {file} has no such heading")

    def test_llms_linksEveryPage_andAHubServesThem(self):
        """The hub serves it beside the console; its links are relative to it."""
        lines = [match.groups() for match in re.finditer(r"^- \[[^\]]+\]\(([^)]+)\): (.*)$", (ROOT / "web/llms.txt").read_text(), re.M)]
        self.assertTrue(lines)
        for link, _ in lines:
            self.assertTrue((ROOT / "web" / link).is_file(), f"{link} is not there")
        for page in PAGES:
            self.assertIn(f"docs/{page}", [link for link, _ in lines])
        hub = Hub("--dev", "--memory", "--web", str(ROOT / "web"))
        self.addCleanup(hub.stop)
        for link in ["llms.txt", *(link for link, _ in lines)]:
            with urllib.request.urlopen(f"{hub.url}/.console/{link}") as answer:
                given = (answer.headers["Content-Type"], answer.read())
            self.assertEqual(given, ("text/plain; charset=utf-8", (ROOT / "web" / link).read_bytes()), link)


class Assistants(unittest.TestCase):
    """The tables of docs/assistants.md: the hub says what stands there of what is wrong, and accepts the rest."""

    @staticmethod
    def rows(heading):
        """The rows of a section's tables: of each cell what is in backticks, else nothing."""
        section = re.split(r"^## ", (ROOT / "docs/assistants.md").read_text(), flags=re.M)
        lines = next(part for part in section if part.startswith(heading + "\n")).splitlines()
        cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if re.match(r"\| [`.]", line)]
        return [[cell.strip().replace("\\|", "|") for cell in row] for row in cells]

    def check(self, place):
        """(exit code, output) of a file with a place below its rules."""
        with tempfile.TemporaryDirectory(prefix="vigla-docs-") as folder:
            (Path(folder) / "rules.json").write_text('{"rules":{%s}}' % place)
            done = subprocess.run([os.environ.get("VIGLA_BIN", ROOT / ".build/debug/vigla"), "rules", "check", "--strict", "rules.json"],
                                  cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.returncode, done.stdout

    @staticmethod
    def place(cell):
        """What a cell of the mistakes stands for."""
        kind, code = re.fullmatch(r"(?:`(\.\w+)`: )?`(.*)`", cell).groups()
        return code if code.startswith('"items') else f'"items":{{"$item":{{"{kind or ".write"}":{json.dumps(code)}}}}}'

    def test_extensions_areAccepted(self):
        rows = self.rows("Extensions")
        self.assertGreater(len(rows), 10)
        for _, example, _ in rows:
            code, output = self.check(example[1:-1])
            self.assertEqual(code, 0, f"{example}\n{output}")

    def test_mistakes_haveTheirMessage_andAreRightWithoutIt(self):
        rows = self.rows("Common mistakes")
        self.assertGreater(len(rows), 20)
        for wrong, message, right in rows:
            code, output = self.check(self.place(wrong))
            self.assertEqual(code, 1, wrong)
            self.assertIn(message[1:-1], output)
            code, output = self.check(self.place(right))
            self.assertEqual(code, 0, f"{right}\n{output}")


class Session(unittest.TestCase):
    """One page's blocks of one kind."""

    def run_page(self, page, kind):
        all_blocks = blocks((ROOT / "docs" / page).read_text())
        chosen = [block for block in all_blocks if block.test == kind]
        if not chosen:
            return
        with tempfile.TemporaryDirectory(prefix="vigla-docs-") as folder, self.subTest(f"{page}: {kind}"):
            folder = Path(folder)
            environment = self.environment(folder)
            (folder / "rules.json").write_text(CLOSED)
            if page not in FILES:
                self.write_files(all_blocks, folder)
            hub = self.hub(kind, folder, all_blocks, environment)
            try:
                address = hub.url if hub else ADDRESS
                shell = [block for block in chosen if block.language == "sh"]
                script = "set -euo pipefail\n" + BEFORE.get((page, kind), "") + "".join(block.text for block in shell)
                said = self.type(script, address, folder, environment)
                self.assertRegex(said, SAYS.get((page, kind), "^"))
                for block in chosen:
                    if block.language == "js":
                        self.type_js(page, block, address, folder, environment)
            finally:
                if hub:
                    hub.stop()

    @staticmethod
    def environment(folder):
        """Of a session in the folder: `vigla` is the program that is tested."""
        program = Path(os.environ.get("VIGLA_BIN", ROOT / ".build/debug/vigla")).resolve()
        (folder / "bin").mkdir()
        (folder / "bin/vigla").symlink_to(program)
        # A refused request is a failure.
        (folder / ".curlrc").write_text("fail\nsilent\nshow-error\n")
        return {"PATH": f"{folder}/bin:{os.environ['PATH']}", "CURL_HOME": str(folder), "HOME": str(folder)}

    def hub(self, kind, folder, all_blocks, environment):
        """The hub of a kind; None for a stopped one, whose folder is filled."""
        if kind == "docs dev":
            rules = [block.text for block in all_blocks if block.test == "docs rules"]
            return Hub("--dev", "--memory", rules=rules[0] if rules else None)
        if kind == "docs closed":
            (folder / "accounts.json").write_text(json.dumps({"oauth-password": True}))
            return Hub("--data", str(folder / "data"), "--accounts", str(folder / "accounts.json"), rules=CLOSED)
        (folder / "seed.json").write_text('{"users":{"ana":{"name":"Ana"}}}')
        subprocess.run(["vigla", "import", "data", "seed.json"], cwd=folder, env=environment, check=True, capture_output=True)
        return None

    def type(self, script, address, folder, environment):
        for there, here in {ADDRESS: address, ADDRESS.replace("http", "ws"): address.replace("http", "ws"), **PATHS}.items():
            script = script.replace(there, here)
        done = subprocess.run(["bash", "-x", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    @staticmethod
    def write_files(all_blocks, folder):
        """The files of a page's blocks."""
        for block in all_blocks:
            if (block.test or "").startswith("docs file "):
                (folder / block.test.removeprefix("docs file ")).write_text(block.text)

    def type_js(self, page, block, address, folder, environment):
        file = folder / "block.mjs"
        # Node before 22 has no built-in WebSocket.
        (folder / "socket.mjs").write_text(f"import {{ NodeSocket }} from '{ROOT}/web/vigla-node.js'; globalThis.WebSocket ??= NodeSocket;")
        file.write_text(block.text.replace(ADDRESS.replace("http", "ws"), address.replace("http", "ws")))
        command, said = MEANWHILE[page]
        running = subprocess.Popen(["node", "--import", folder / "socket.mjs", file], cwd=folder, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.type(command, address, folder, environment)
            line = running.stdout.readline()
            self.assertEqual(line.strip(), said)
        finally:
            running.kill()
            running.communicate()

    def test_files(self):
        for page in FILES:
            all_blocks = blocks((ROOT / "docs" / page).read_text())
            with tempfile.TemporaryDirectory(prefix="vigla-docs-") as folder, self.subTest(page):
                folder = Path(folder)
                self.write_files(all_blocks, folder)
                self.type("set -euo pipefail\n" + FILES[page], ADDRESS, folder, self.environment(folder))

    def test_pages(self):
        for page in PAGES:
            for kind in ["docs dev", "docs closed", "docs stopped"]:
                self.run_page(page, kind)


if __name__ == "__main__":
    unittest.main()
