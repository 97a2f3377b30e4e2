"""The clients as packages: each is built, installed elsewhere, type-checked in a program (Types/), and used with the real hub. Run through
Tests/Clients/run.

npm builds and installs the one of JavaScript where there is npm, which Debian's Node 18 comes without; else its files are laid out as npm
does. Deno (from PyPI) runs it too, and checks its types; so does `tsc`, where it is installed (apt-get install node-typescript)."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/Python")]
sys.dont_write_bytecode = True

from hub import Hub  # noqa: E402

HERE = ROOT / "Tests/Clients"
BIN = Path(sys.executable).parent
FILES = ["package.json", "vigla-node.js", "vigla.d.ts", "vigla.js"]
USE = "const hub = new Vigla(process.argv[2]); await hub.set('/a', 1); console.log(await hub.get('/a')); hub.close();"
PROGRAMS = {
    "module.mjs": f"import {{ Vigla }} from 'vigla';\n{USE}\n",
    "common.cjs": f"import('vigla').then(async ({{ Vigla }}) => {{ {USE} }});\n",
    "required.cjs": f"const {{ Vigla }} = require('vigla');\n(async () => {{ {USE} }})();\n",
}
PYTHON = """
import asyncio, sys
from vigla import Vigla

async def main():
    async with Vigla(sys.argv[1]) as hub:
        await hub.set("/a", 1)
        print(await hub.get("/a"))

asyncio.run(main())
"""


def run(*command, cwd, **environment):
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "NO_COLOR": "1", "npm_config_update_notifier": "false", **environment})
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def versions(program):
    return tuple(map(int, re.findall(r"\d+", run(program, "--version", cwd="/"))[:3]))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hub = Hub("--dev", "--memory")
        cls.addClassCleanup(cls.hub.stop)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vigla-packages-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    # ---- JavaScript

    def install(self):
        """A project that depends on the package."""
        if shutil.which("npm"):
            [packed] = json.loads(run("npm", "pack", ROOT / "web", "--json", "--pack-destination", self.folder, cwd=self.folder))
            archive = self.folder / packed["filename"]
            with tarfile.open(archive) as files:
                self.assertEqual(sorted(files.getnames()), [f"package/{name}" for name in FILES])
            (self.folder / "package.json").write_text('{"name": "user", "private": true}')
            run("npm", "install", "--offline", "--no-audit", "--no-fund", archive, cwd=self.folder)
        else:
            (self.folder / "package.json").write_text('{"name": "user", "private": true, "dependencies": {"vigla": "*"}}')
            (self.folder / "node_modules/vigla").mkdir(parents=True)
            for name in FILES:
                shutil.copy(ROOT / "web" / name, self.folder / "node_modules/vigla")

    def test_javaScript_isInstalled_andRuns(self):
        self.install()
        # Node's require accepts modules since 20.19 and 22.12.
        node = versions("node")
        requires = node[:2] >= (20, 19) and (node[0] != 22 or node[1] >= 12)
        for name, text in PROGRAMS.items():
            if name == "required.cjs" and not requires:
                continue
            (self.folder / name).write_text(text)
            with self.subTest(name):
                self.assertEqual(run("node", "--no-warnings", name, self.hub.url, cwd=self.folder), "1\n")
        with self.subTest("Deno"):
            self.assertEqual(run(BIN / "deno", "run", "--allow-net", "module.mjs", self.hub.url, cwd=self.folder), "1\n")

    def test_javaScript_hasTypes_thatAcceptAndRefuse(self):
        self.install()
        shutil.copy(HERE / "Types/typed.mts", self.folder)
        run(BIN / "deno", "check", "typed.mts", cwd=self.folder)
        if shutil.which("tsc"):
            run("tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "typed.mts", cwd=self.folder)

    def test_javaScript_declaresWhatItHas(self):
        declared = (ROOT / "web/vigla.d.ts").read_text()
        for name in ("Vigla", "Observer"):
            body = re.search(rf"export class {name}\b.*?\n}}\n", declared, re.S)[0]
            members = set(re.findall(r"^  (?:private )?(\w+)[(<]", body, re.M))
            text = (f"import {{ {name} }} from {json.dumps((ROOT / 'web/vigla.js').as_uri())};"
                    f"console.log(Object.getOwnPropertyNames({name}.prototype).join());")
            found = set(run("node", "--input-type=module", "-e", text, cwd="/").strip().split(","))
            self.assertEqual(members, found - {"tell"}, name)  # tell is internal to the client and its observers

    # ---- Python

    def test_python_isInstalled_typed_andRuns(self):
        source = self.folder / "source"
        shutil.copytree(ROOT / "Examples/clients/python", source, ignore=shutil.ignore_patterns("__pycache__"))
        run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", self.folder, source, cwd=self.folder,
            PATH=f"{BIN}:{os.environ['PATH']}")
        [wheel] = self.folder.glob("vigla-*.whl")
        run(sys.executable, "-m", "venv", "venv", cwd=self.folder)
        python = self.folder / "venv/bin/python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=self.folder)
        (self.folder / "program.py").write_text(PYTHON)
        self.assertEqual(run(python, "program.py", self.hub.url, cwd=self.folder), "1\n")
        shutil.copy(HERE / "Types/typed.py", self.folder)
        run(BIN / "mypy", "--strict", "--python-executable", python, "typed.py", cwd=self.folder)

    def test_python_isTyped_asTheFileThatIsCopied(self):
        for source in ("Examples/clients/python/vigla.py", "Tests/Clients/Types/typed.py"):
            shutil.copy(ROOT / source, self.folder)
        run(BIN / "mypy", "--strict", "vigla.py", "typed.py", cwd=self.folder)

    # ---- both

    def test_packages_haveTheVersionOfTheProgram(self):
        [version] = re.findall(r'static let version = "([^"]+)"', (ROOT / "Sources/vigla/Vigla.swift").read_text())
        self.assertEqual(json.loads((ROOT / "web/package.json").read_text())["version"], version)
        self.assertIn(f'\nversion = "{version}"\n', (ROOT / "Examples/clients/python/pyproject.toml").read_text())


if __name__ == "__main__":
    unittest.main()
