"""docs/proxies.md and Examples/proxies in the tree of the package: nginx and Caddy as Debian has them, before the hub of the package.

Debian has no Traefik: nobody executes its example.
"""

from package import SESSION, run, session
from readme import blocks

EXAMPLES = "/usr/share/vigla/examples/proxies"

# Through https://$name: a write, a socket that gets one, an event stream, a large body, and pages that are not public.
THROUGH = r"""
through() {
    name=$1 authority=$2
    rm -f /tmp/watched /tmp/streamed    # of the previous proxy
    export VIGLA_AUTH_FILE=/var/lib/vigla/data/admin-secret.txt VIGLA_TLS_CA=$authority
    for _ in $(seq 300); do curl -sf --cacert "$authority" "https://$name/.health" >/dev/null && break; sleep 0.1; done
    vigla set "https://$name/proxied/by" "\"$name\""
    vigla watch "https://$name/proxied/at" --events value --count 2 >/tmp/watched &
    watching=$!
    until grep -q . /tmp/watched; do sleep 0.1; done
    vigla set "https://$name/proxied/at" 1
    wait $watching
    grep '"value":1' /tmp/watched
    bearer="Authorization: Bearer $(cat "$VIGLA_AUTH_FILE")"
    stream=(-N -m 20 -H 'Accept: text/event-stream' "https://$name/proxied/at.json")
    (curl -s --cacert "$authority" -H "$bearer" "${stream[@]}" || true) >/tmp/streamed &
    streaming=$!
    until grep -q '"data":1' /tmp/streamed; do sleep 0.1; done
    vigla set "https://$name/proxied/at" 2
    until grep -q '"data":2' /tmp/streamed; do sleep 0.1; done
    kill $streaming 2>/dev/null || true
    (printf '"'; head -c 9000000 /dev/zero | tr '\0' x; printf '"') >/tmp/large
    curl -sf --cacert "$authority" -H "$bearer" -X PUT -T /tmp/large "https://$name/proxied/large.json?print=silent"
    test "$(curl -s -o /dev/null -w '%{http_code}' --cacert "$authority" -H "$bearer" "https://$name/.metrics")" = 404
    vigla remove "https://$name/proxied"
    echo "through $name: ok"
}
"""

NGINX = r"""
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=hub.example \
    -addext subjectAltName=DNS:hub.example -keyout /etc/nginx/privkey.pem -out /etc/nginx/fullchain.pem 2>/dev/null
echo '127.0.0.1 localhost hub.example' >/etc/hosts
cp EXAMPLES/nginx.conf /etc/nginx/conf.d/vigla.conf
rm -f /etc/nginx/sites-enabled/default
nginx -t
nginx
through hub.example /etc/nginx/fullchain.pem
nginx -s quit
"""

# The page's lines, for a name that only this machine resolves.
CADDY = r"""
export XDG_DATA_HOME=/tmp/caddy HOME=/root
root=/tmp/caddy/caddy/pki/authorities/local/root.crt
caddy run --config /etc/caddy/Caddyfile --adapter caddyfile >>/tmp/caddy.log 2>&1 &
caddy=$!
disown
for _ in $(seq 300); do curl -s -o /dev/null http://127.0.0.1:2019/config/ && break; sleep 0.1; done
cp /root/*.deb .
export VIGLA_TLS_CA=$root CURL_CA_BUNDLE=$root
PAGE
through localhost $root
kill $caddy
"""


def test_proxies(tree, page, check):
    """`page`: the text of docs/proxies.md."""
    run(tree, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "nginx-light", "caddy", "openssl", "jq")
    lines = [block.text for block in blocks(page) if block.test == "proxies"]
    check(len(lines) == 3, f"docs/proxies.md has blocks for this test ({len(lines)})")
    typed = "\n".join(lines).replace("hub.example", "localhost")
    # The certificate exists a moment after the reload.
    typed = typed.replace("\nsudo systemctl reload caddy", "\nsudo systemctl reload caddy; until test -s $root; do sleep 0.1; done; :")
    for name, script in (("nginx", NGINX), ("Caddy", CADDY.replace("PAGE", typed))):
        said = session(tree, SESSION + THROUGH + "set -x\n" + script.replace("EXAMPLES", EXAMPLES))
        good = said.returncode == 0 and ": ok\n" in said.stdout
        check(good, f"{name} in front, with the example: sockets, event streams, 9 MB, no metrics"
                    f"{'' if good else chr(10) + said.stdout[-5000:]}")
    check('"today":"all is well"}' in said.stdout, "docs/proxies.md leads to a closed hub with accounts behind TLS")
