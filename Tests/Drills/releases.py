"""Another version of the program: forward with a folder of every released format, and back."""

import os
import shutil
import sqlite3
import tarfile
import tempfile
from pathlib import Path

from drill import Drill, command, request

FOLDERS = Path(__file__).with_name("folders")
BEFORE = os.environ.get("VIGLA_BEFORE_BIN")


def format_of(folder):
    with sqlite3.connect(f"file:{folder}/vigla.sqlite?mode=ro", uri=True) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


class Upgrade(Drill):
    """A folder of each released format, as the program of its day left it, is taken over with all that is in it."""

    def test(self):
        archives = sorted(FOLDERS.glob("format-*.tar.gz"))
        self.assertTrue(archives, f"there are no folders in {FOLDERS}")
        for archive in archives:
            with self.subTest(archive.name):
                data = self.folder / archive.name / "data"
                with tarfile.open(archive) as packed:
                    packed.extractall(data)
                backup = data.parent / "backup"
                shutil.copytree(data, backup)
                hub = self.serving(data)
                self.look(hub, data)
                hub.kill()
                hub.start()
                self.look(hub, data)
                hub.stop()
                # The copy from before is restored as well, and upgraded again.
                command("backup", "--restore", "--from", backup, "--data", data, "--replace")
                hub = self.serving(data)
                self.look(hub, data)
                hub.stop()


class Downgrade(Drill):
    """A folder of a newer format is refused and stays what it was; the backup, or an export, leads back."""

    def test(self):
        data, backup, export = (self.folder / name for name in ("data", "backup", "everything.json"))
        hub = self.serving(data)
        session = self.fill(hub, data)
        hub.stop()
        command("backup", "--data", data, "--to", backup)
        kept = (data / "admin-secret.txt").read_bytes()
        newer = format_of(data) + 1
        with sqlite3.connect(data / "vigla.sqlite") as database:
            database.execute(f"PRAGMA user_version = {newer}")
        code, said = command("serve", "--port", "0", "--data", data, may_fail=True)
        self.assertNotEqual(code, 0)
        self.assertIn(f"format {newer}", said)
        self.assertEqual(format_of(data), newer, "the folder is left as it is")

        command("backup", "--restore", "--from", backup, "--data", data, "--replace", program=BEFORE)
        self.assertEqual((data / "admin-secret.txt").read_bytes(), kept)
        hub = self.serving(data, program=BEFORE)
        self.look(hub, data, session)
        hub.stop()

        command("export", data, export)
        command("import", self.folder / "other", export, program=BEFORE)
        other = self.serving(self.folder / "other", program=BEFORE)
        status, everything = request(f"{other.url}/.json", secret=self.secret(self.folder / "other"))
        self.assertEqual((status, everything["news"]["n1"]["text"]), (200, "all is well"))


def make_folder():
    """Keeps a folder of this program's format, for `Upgrade` of later versions."""
    drill = Drill()
    drill.setUp()
    try:
        data = drill.folder / "data"
        hub = drill.serving(data)
        drill.fill(hub, data)
        hub.stop()
        target = FOLDERS / f"format-{format_of(data)}.tar.gz"
        with tempfile.TemporaryDirectory() as packed:
            made = Path(packed) / target.name
            with tarfile.open(made, "w:gz") as archive:
                for file in sorted(data.iterdir()):
                    archive.add(file, file.name)
            shutil.copy(made, target)
        print(f"{target}: {target.stat().st_size} bytes")
    finally:
        drill.doCleanups()
    return 0


DRILLS = [Upgrade, Downgrade]
