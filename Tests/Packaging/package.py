"""The Debian package in a fresh tree: installed, README's lines typed, upgraded, removed."""

import re
import shutil
import subprocess

from debian import Tree
from readme import blocks

# What README's lines are typed into. There is no systemd in the tree: the hub is started as the unit says, by its user, with its
# environment file. `sudo` is what root needs of it.
START_HUB = r"""
# Whoever has ended has no program any more, also while nobody has asked for its exit code.
hub_runs() { readlink -q "/proc/$(cat /tmp/hub.pid)/exe" >/dev/null; }
end_hub() { kill "$(cat /tmp/hub.pid)"; while hub_runs; do sleep 0.1; done; }
start_hub() {
    env_file=$(sed -n 's/^EnvironmentFile=-//p' /lib/systemd/system/vigla.service)
    start=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/vigla.service)
    (set -a; . "$env_file"; exec setpriv --reuid=vigla --regid=vigla --clear-groups --inh-caps=-all --no-new-privs $start) >>/tmp/hub.log 2>&1 &
    echo $! >/tmp/hub.pid
    disown    # so that a `wait` of README's waits for README's own
    for _ in $(seq 300); do vigla health 2>/dev/null && return; sleep 0.1; done
    cat /tmp/hub.log >&2; exit 1
}
"""
SESSION = START_HUB + r"""
set -euo pipefail
cd "$(mktemp -d)"
start_hub
trap end_hub EXIT
"""


def test_package(deb, readme, work, cache, say, check, before_removal):
    """`before_removal` is given the tree with the package in it, and data."""
    tree = Tree.unpacked("bookworm", work / "package-tree", cache)
    run(tree, "apt-get", "update", "-qq")
    run(tree, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "curl")
    shutil.copy(deb, tree.inside("/root") / deb.name)
    sudo = tree.inside("/usr/local/bin/sudo")
    sudo.write_text("#!/bin/sh\nexec \"$@\"\n")
    sudo.chmod(0o755)

    lines = [block.text for block in blocks(readme) if block.test == "package"]
    check(len(lines) >= 6, f"README has blocks for this test ({len(lines)})")
    install, *rest = lines
    install, *after = install.splitlines()
    check(f"./{deb.name}" in install, f"README's first line installs {deb.name}: {install}")
    done = run(tree, "bash", "-c", f"cd /root && {install}", may_fail=True)
    check(done.returncode == 0, f"the package installs{'' if done.returncode == 0 else chr(10) + done.stdout}")
    user = tree.ids("vigla")
    check(tree.inside("/var/lib/vigla").stat().st_uid == user[0], "/var/lib/vigla belongs to vigla")
    check(tree.inside("/var/lib/vigla").stat().st_mode & 0o777 == 0o700, "nobody else may look into it")
    size = tree.inside("/usr/bin/vigla").stat().st_size
    say(f"/usr/bin/vigla has {size / 1e6:.1f} MB")
    swift = run(tree, "sh", "-c", "ldd /usr/bin/vigla").stdout
    check("not found" not in swift and "libswift" not in swift, "it needs no Swift, and misses no library")

    script = SESSION + "set -x\n" + "\n".join(after) + "\n" + "\n".join(rest)
    said = session(tree, script)
    check(said.returncode == 0, f"README's lines work from top to bottom{'' if said.returncode == 0 else chr(10) + said.stdout}")
    moved = re.findall(r'"event":"value","value":{"latitude":(37\.955\d)', said.stdout)
    check(len(set(moved)) == 3, f"the position has moved: {', '.join(moved)}")
    check("ana@example.org" in said.stdout, "the account is listed")
    check("allowed: read" in said.stdout or "denied: read" in said.stdout, "the rules are explained")
    secret = tree.inside("/var/lib/vigla/data/admin-secret.txt")
    check(secret.stat().st_mode & 0o777 == 0o600 and secret.stat().st_uid == user[0], "the secret is the hub's user's alone")
    check(secret.read_text().strip() not in tree.inside("/tmp/hub.log").read_text(), "it is not in the log")

    # An upgrade keeps settings that were changed, and data.
    settings = tree.inside("/etc/vigla/vigla.env")
    settings.write_text(settings.read_text() + "VIGLA_LOG_LEVEL=debug\n")
    run(tree, "bash", "-c", f"cd /root && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --reinstall ./{deb.name}")
    check("VIGLA_LOG_LEVEL=debug" in settings.read_text(), "an upgrade keeps /etc/vigla/vigla.env")
    said = session(tree, SESSION + "vigla get http://127.0.0.1:9000/users-follow/andreas/danae/current "
                                   "--auth-file /var/lib/vigla/data/admin-secret.txt\n")
    check('"latitude":37.9553' in said.stdout, f"an upgrade keeps the data: {said.stdout.strip()}")

    before_removal(tree)
    run(tree, "apt-get", "remove", "-y", "-qq", "vigla")
    check(not tree.inside("/usr/bin/vigla").exists() and secret.exists() and settings.exists(), "removing keeps data and settings")
    run(tree, "apt-get", "purge", "-y", "-qq", "vigla")
    check(secret.exists() and not settings.exists(), "purging keeps data")


def run(tree, *words, may_fail=False):
    done = tree.run(words, environment={"DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode and not may_fail:
        raise OSError(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}")
    return done


def session(tree, script):
    """Runs it in the tree, with a loopback network of its own: the ports are README's."""
    path = tree.inside("/root/session.sh")
    path.write_text(script)
    words = tree.command(["bash", "/root/session.sh"], "root", {})
    return subprocess.run(["timeout", "300", "unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *words],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
