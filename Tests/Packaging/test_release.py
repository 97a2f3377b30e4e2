"""What releases are made with: the lock of Swift packages (Scripts/swift-packages) and the notes (Scripts/release-notes)."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = "https://packages.example/"        # the manifests' address of packages; git takes them from a folder
MANIFEST = """// swift-tools-version: 6.0
import PackageDescription
let package = Package(name: "{name}", products: [.library(name: "{name}", targets: ["{name}"])], dependencies: [{packages}],
                      targets: [.target(name: "{name}", dependencies: [{products}])])
"""


class Copy(unittest.TestCase):
    """A copy of a script in a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        self.root = self.work / "root"
        (self.root / "Scripts").mkdir(parents=True)
        shutil.copy2(ROOT / "Scripts" / self.script, self.root / "Scripts")
        self.environment = dict(os.environ)

    def run_script(self, *words):
        return subprocess.run([self.root / "Scripts" / self.script, *words], env=self.environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)


@unittest.skipUnless(shutil.which("swift"), "there is no Swift")
class SwiftPackages(Copy):
    """`Near`, which the package depends on, depends on `Far`; both have the versions 1.0.0 and 1.1.0."""

    script = "swift-packages"

    def setUp(self):
        super().setUp()
        # SwiftPM caches packages, and the commits of their tags, per user: here it caches them in this folder.
        wrapper = self.work / "bin/swift"
        wrapper.parent.mkdir()
        own = f'--cache-path "{self.work}/cache" --security-path "{self.work}/security"'
        wrapper.write_text(f'#!/bin/sh\nexec "{shutil.which("swift")}" "$@" {own}\n')
        wrapper.chmod(0o755)
        self.environment |= {"PATH": f"{wrapper.parent}:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": str(self.work / "gitconfig"),
                             "GIT_CONFIG_NOSYSTEM": "1"}
        (self.work / "gitconfig").write_text(f'[url "{self.work}/"]\n\tinsteadOf = {PLACE}\n[user]\n\tname = a\n\temail = a@example.org\n')
        self.package(self.work / "Far", "Far")
        self.package(self.work / "Near", "Near", "Far")
        self.package(self.root, "Root", "Near")
        self.lock = self.root / "Packaging/swift-packages.lock"
        self.lock.parent.mkdir()

    def package(self, folder, name, *needs):
        sources = folder / "Sources" / name
        sources.mkdir(parents=True)
        (sources / "Empty.swift").touch()
        (folder / "Package.swift").write_text(MANIFEST.format(
            name=name, packages=", ".join(f'.package(url: "{PLACE}{need}", from: "1.0.0")' for need in needs),
            products=", ".join(f'.product(name: "{need}", package: "{need}")' for need in needs)))
        # The newer version's tag is annotated: git lists such tags with their own hash, followed by the commit's.
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "1"], ["tag", "1.0.0"],
                      ["commit", "-qm", "2", "--allow-empty"], ["tag", "-a", "1.1.0", "-m", "newer"]):
            subprocess.run(["git", *words], cwd=folder, env=self.environment, check=True)

    def write_lock(self, **versions):
        self.lock.write_text("# versions\n" + "".join(f"{PLACE}{name} {version}\n" for name, version in versions.items()))

    def checked_out(self):
        folder = self.root / ".build/checkouts"
        return {name: subprocess.run(["git", "describe", "--tags"], cwd=folder / name, capture_output=True, text=True).stdout.strip()
                for name in ("Far", "Near")}

    def test_takes_locked_versions_though_newer_ones_exist(self):
        for versions in ({"Far": "1.0.0", "Near": "1.1.0"}, {"Far": "1.1.0", "Near": "1.0.0"}):
            self.write_lock(**versions)
            done = self.run_script()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.checked_out(), versions)

    def test_refuses_a_lock_that_lacks_a_package_also_after_an_earlier_build(self):
        self.write_lock(Far="1.1.0", Near="1.1.0")
        self.assertEqual(self.run_script().returncode, 0)
        self.write_lock(Near="1.1.0")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "(?is)'far'.*Packaging/swift-packages.lock does not fit")

    def test_refuses_a_version_that_does_not_exist(self):
        self.write_lock(Far="1.0.7", Near="1.1.0")
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{PLACE}Far has no version 1.0.7", done.stderr)

    def test_update_writes_the_newest_versions_and_keeps_comments(self):
        self.write_lock(Near="1.0.0")
        done = self.run_script("update")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.lock.read_text(), f"# versions\n{PLACE}Far 1.1.0\n{PLACE}Near 1.1.0\n")


class ReleaseNotes(Copy):
    script = "release-notes"

    def setUp(self):
        super().setUp()
        (self.root / "CHANGELOG.md").write_text(
            "# Changes\n\n## 1.10.0, not released yet\n\n* ten\n\n"
            "## 1.1.0, 2026-12-01\n\n* one:\n  more\n\n## 1.0.0, 2026-11-01\n\n* none\n")

    def test_prints_the_section_of_a_version(self):
        done = self.run_script("1.1.0")
        self.assertEqual((done.returncode, done.stdout), (0, "* one:\n  more\n\n"), done.stderr)

    def test_refuses_a_version_without_a_section(self):
        done = self.run_script("1.1")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no section '## 1.1'", done.stderr)

    def test_refuses_a_version_that_is_not_released(self):
        done = self.run_script("1.10.0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no date in '## 1.10.0, not released yet'", done.stderr)


del Copy                                   # an abstract class without a script is not a test
