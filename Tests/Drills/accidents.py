"""What happens to a machine: its disk is full, its clock jumps, its power fails."""

import mmap
import os
import shutil
import struct
import subprocess
import time
import unittest
from pathlib import Path

from drill import Drill, command, refresh, request, sign_in

SHIM = Path(__file__).resolve().parents[1] / "Hostile/shim.c"
DAY = 86_400


class DiskFull(Drill):
    """Free some space: no restart, nothing to repair."""

    MEGABYTES = 48

    @unittest.skipUnless(os.geteuid() == 0, "a disk of its own needs root")
    def test(self):
        disk = self.folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.MEGABYTES}m", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk])
        others = disk / "what-somebody-else-left"
        others.write_bytes(bytes(self.MEGABYTES << 19))
        data = disk / "data"
        hub = self.serving(data)
        secret, text = self.secret(data), "x" * 200_000
        stored, refused = [], None
        for number in range(self.MEGABYTES * 10):
            status, answer = request(f"{hub.url}/w/k{number}.json", "PUT", f"{number}{text}", secret)
            if status != 200:
                refused = (number, status, answer)
                break
            stored.append(number)
        self.assertIsNotNone(refused, "the disk was never full")
        self.assertEqual(refused[1], 503, refused)
        self.assertGreater(len(stored), 5)

        self.assertEqual(request(f"{hub.url}/.health")[0], 200)
        self.assertEqual(request(f"{hub.url}/.health")[1]["reason"], "disk_full")
        self.assertEqual(request(f"{hub.url}/.health/ready")[0], 503)
        self.assertEqual(command("health", hub.url), "", "the health of the process stays: a restart makes no room")
        self.assertEqual(request(f"{hub.url}/w/k0.json", secret=secret), (200, f"0{text}"), "reads go on")

        others.unlink()
        self.becomes("ready", lambda: request(f"{hub.url}/.health/ready")[0] == 200)
        self.assertEqual(request(f"{hub.url}/w/after.json", "PUT", 1, secret)[0], 200)
        hub.kill()
        hub.start()
        _, there = request(f"{hub.url}/w.json?shallow=true", secret=secret)
        self.assertEqual(set(there), {f"k{number}" for number in stored} | {"after"}, "what was acknowledged, and nothing that was refused")


class ClockJumps(Drill):
    """Set it right: sessions go on."""

    @unittest.skipUnless(shutil.which("cc"), "moving a program's clock needs cc")
    def test(self):
        library, page = self.folder / "clock.so", self.folder / "page"
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, SHIM, "-ldl"], check=True)
        page.write_bytes(bytes(4096))
        data = self.folder / "data"
        hub = self.serving(data, environment={"LD_PRELOAD": str(library), "HOSTILE_SHIM_PAGE": str(page)})
        with page.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as shared:
            def jump(seconds):
                shared[:8] = struct.pack("=q", seconds)

            session = self.fill(hub, data)
            secret = self.secret(data)
            for seconds in (DAY, -200 * DAY, 0):
                jump(seconds)
                self.assertEqual(sign_in(hub)[0], 200, f"the clock is {seconds} s off")
                status, at = request(f"{hub.url}/at.json", "PUT", {".sv": "timestamp"}, secret)
                self.assertEqual(status, 200, at)
                self.assertAlmostEqual(at / 1000, time.time() + seconds, delta=600, msg="the time of day is the machine's")
            self.assertEqual(request(f"{hub.url}/at.json", "DELETE", secret=secret)[0], 200)
            status, renewed = refresh(hub, session["refreshToken"])
            self.assertEqual(status, 200, renewed)
            self.look(hub, data, session)
            hub.halt()
            hub.start()
            self.look(hub, data, session)


class PowerFails(Drill):
    """Nothing to do: it starts with all that it had acknowledged."""

    def test(self):
        data = self.folder / "data"
        hub = self.serving(data)
        session = self.fill(hub, data)
        for _ in range(3):
            hub.kill()
            hub.start()
            self.look(hub, data, session)


DRILLS = [DiskFull, ClockJumps, PowerFails]
