"""The Debian package in a fresh tree: installed, the lines of README and docs/deploy.md typed, upgraded, removed."""

import re
import shutil
import subprocess

from debian import Tree
from readme import blocks

# Functions for the typed lines. The tree has no systemd: programs are started as in their units, by their user, with
# their environment file. `sudo` does what root needs of it.
FUNCTIONS = r"""
# A process that has ended has no executable, even before its parent has collected its exit code.
hub_runs() { readlink -q "/proc/$(cat /tmp/hub.pid)/exe" >/dev/null; }
end_hub() { kill "$(cat /tmp/hub.pid)"; while hub_runs; do sleep 0.1; done; }
unit() { sed -n "s/^$2=-\\{0,1\\}//p" "/lib/systemd/system/$1.service"; }
exec_as_hub() {
    set -a; . "$(unit vigla EnvironmentFile)"
    exec setpriv --reuid=vigla --regid=vigla --clear-groups --inh-caps=-all --no-new-privs "$@"
}
# Like systemd: line by line, until one fails.
reload_hub() {
    unit vigla ExecReload | while read -r line; do (export MAINPID=$(cat /tmp/hub.pid); exec_as_hub sh -c "$line" </dev/null) || return; done
}
start_hub() {
    exec_as_hub $(unit vigla ExecStart) >>/tmp/hub.log 2>&1 &
    echo $! >/tmp/hub.pid
    disown    # so that a typed `wait` waits for the typed commands only
    for _ in $(seq 300); do vigla health 2>/dev/null && return; sleep 0.1; done
    cat /tmp/hub.log >&2; exit 1
}
"""
# `systemctl`: only the commands that the lines use.
SYSTEMCTL = r"""#!/bin/bash
. /root/functions
case "$*" in
"start vigla") start_hub ;;
"stop vigla") end_hub ;;
"restart vigla") end_hub; start_hub ;;
"reload vigla") reload_hub ;;
"start vigla-backup") exec_as_hub $(unit vigla-backup ExecStart) ;;
"enable --now vigla-backup.timer") test -e /lib/systemd/system/vigla-backup.timer ;;
"reload caddy") caddy reload --config /etc/caddy/Caddyfile --adapter caddyfile 2>>/tmp/caddy.log ;;
*) echo "systemctl $*: not known here" >&2; exit 1 ;;
esac
"""
SESSION = r"""
. /root/functions
set -euo pipefail
cd "$(mktemp -d)"
start_hub
trap end_hub EXIT
"""


def test_package(deb, readme, deploy, work, cache, say, check, before_removal):
    """`readme`, `deploy`: the texts of README and docs/deploy.md. `before_removal` is given the tree with the package in it, and data."""
    tree = Tree.unpacked("bookworm", work / "package-tree", cache)
    run(tree, "apt-get", "update", "-qq")
    run(tree, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "curl")
    shutil.copy(deb, tree.inside("/root") / deb.name)
    tree.inside("/root/functions").write_text(FUNCTIONS)
    for name, text in {"sudo": "#!/bin/sh\n[ \"$1\" = -i ] || exec \"$@\"\n", "systemctl": SYSTEMCTL}.items():
        program = tree.inside(f"/usr/local/bin/{name}")
        program.write_text(text)
        program.chmod(0o755)

    lines, more = ([block.text for block in blocks(text) if block.test == "package"] for text in (readme, deploy))
    check((len(lines), len(more)) == (3, 7), f"README and docs/deploy.md have the blocks of this test ({len(lines)}, {len(more)})")
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

    # `exit` leaves the shell of `sudo -i`, which is this one here.
    typed = re.sub(r"^exit\b", ":", "\n".join([*after, *rest]), flags=re.M)
    said = session(tree, SESSION + "set -x\n" + typed)
    check(said.returncode == 0, f"README's lines work from top to bottom{'' if said.returncode == 0 else chr(10) + said.stdout}")
    check('{"first":{"title":"Hello"}}' in said.stdout and said.stdout.count("Permission denied") == 1,
          "everyone reads, and does not write")
    strangers = [path.name for path in tree.inside("/var/lib/vigla/data").iterdir() if path.stat().st_uid != user[0]]
    check(not strangers, f"all of the restored folder belongs to vigla {' '.join(strangers)}")

    said = session(tree, SESSION + "set -x\n" + "\n".join(more))
    check(said.returncode == 0, f"so do those of docs/deploy.md{'' if said.returncode == 0 else chr(10) + said.stdout}")
    moved = re.findall(r'"event":"value","value":{"latitude":(37\.955\d)', said.stdout)
    check(len(set(moved)) == 3, f"the position has moved: {', '.join(moved)}")
    check("ana@example.org" in said.stdout, "the account is listed")
    check("allowed: read" in said.stdout or "denied: read" in said.stdout, "the rules are explained")
    secret = tree.inside("/var/lib/vigla/data/admin-secret.txt")
    check(secret.stat().st_mode & 0o777 == 0o600 and secret.stat().st_uid == user[0], "the secret is the hub's user's alone")
    check(secret.read_text().strip() not in tree.inside("/tmp/hub.log").read_text(), "it is not in the log")

    # An upgrade keeps changed settings, and data.
    settings = tree.inside("/etc/vigla/vigla.env")
    settings.write_text(settings.read_text() + "VIGLA_LOG_LEVEL=debug\n")
    run(tree, "bash", "-c", f"cd /root && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --reinstall ./{deb.name}")
    check("VIGLA_LOG_LEVEL=debug" in settings.read_text(), "an upgrade keeps /etc/vigla/vigla.env")
    said = session(tree, SESSION + "vigla get http://127.0.0.1:9000/news/first --auth-file /var/lib/vigla/data/admin-secret.txt\n")
    check('"title":"Hello"' in said.stdout, f"an upgrade keeps the data: {said.stdout.strip()}")

    said = session(tree, SESSION + r"""
cp /etc/vigla/rules.json /tmp/rules.json
echo '{"rules":{".read":"dta"}}' >/etc/vigla/rules.json
if reload_hub; then echo 'faulty rules are no error'; exit 1; fi
cp /tmp/rules.json /etc/vigla/rules.json
reload_hub
hub_runs
""")
    check(said.returncode == 0 and "Unknown variable 'dta'" in said.stdout,
          f"a reload with faulty rules fails, and says why{'' if said.returncode == 0 else chr(10) + said.stdout}")

    # Files that root restores belong to the hub's user.
    said = session(tree, SESSION + r"""
end_hub
vigla backup --data /var/lib/vigla/data --to /var/lib/vigla/kept
vigla backup --restore --from /var/lib/vigla/kept --data /var/lib/vigla/data --replace
vigla doctor
start_hub
[ -z "$(find /var/lib/vigla ! -user vigla)" ]
vigla get http://127.0.0.1:9000/news/first --auth-file /var/lib/vigla/data/admin-secret.txt
""")
    check(said.returncode == 0 and '"title":"Hello"' in said.stdout,
          f"the hub starts with what root has restored{'' if said.returncode == 0 else chr(10) + said.stdout}")

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
