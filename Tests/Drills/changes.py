"""What an operator does: restores a backup, moves to another machine, renews a certificate."""

import shutil
import signal
import socket
import ssl
import subprocess
import unittest

from drill import Drill, command, request


class Restore(Drill):
    """Last night's backup, after somebody has removed everything."""

    def test(self):
        data, backup = self.folder / "data", self.folder / "backup"
        hub = self.serving(data)
        session = self.fill(hub, data)
        command("backup", "--to", backup, VIGLA_DATA=str(data))
        secret = self.secret(data)
        self.assertEqual(request(f"{hub.url}/.json", "DELETE", secret=secret)[0], 200)
        self.assertEqual(request(f"{hub.url}/.json", secret=secret), (200, None))

        restore = ["backup", "--restore", "--from", backup, "--data", data, "--replace"]
        self.assertNotEqual(command(*restore, may_fail=True)[0], 0, "not while the hub serves")
        hub.halt()
        self.assertNotEqual(command(*restore[:-1], may_fail=True)[0], 0, "not without --replace")
        command(*restore)
        hub.start()
        self.look(hub, data, session)


class AnotherMachine(Drill):
    """The last backup of the old machine, and the secret, are all that goes."""

    def test(self):
        old, on_its_way, new = (self.folder / name for name in ("old", "on-its-way", "new"))
        hub = self.serving(old)
        command("backup", "--data", old, "--to", on_its_way)          # the long one, while it serves
        session = self.fill(hub, old)
        hub.stop()
        command("backup", "--data", old, "--to", on_its_way, "--replace")
        secret = self.folder / "admin-secret.txt"
        shutil.copy2(old / "admin-secret.txt", secret)
        shutil.rmtree(old)

        command("backup", "--restore", "--from", on_its_way, "--data", new)
        shutil.copy2(secret, new)
        hub = self.serving(new)
        self.look(hub, new, session)


class CertificateRenewed(Drill):
    """The files are replaced and the hub is told; open connections stay, a faulty file changes nothing."""

    def make(self, serial):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
             "-set_serial", str(serial), "-subj", "/CN=localhost", "-keyout", self.key, "-out", self.certificate],
            check=True, capture_output=True)

    def connect(self, port):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60))

    def serial(self, port):
        """Of the certificate that a new connection is shown."""
        with self.connect(port) as connection:
            pem = ssl.DER_cert_to_PEM_cert(connection.getpeercert(binary_form=True))
        said = subprocess.run(["openssl", "x509", "-noout", "-serial"], input=pem, capture_output=True, text=True, check=True).stdout
        return int(said.strip().removeprefix("serial="), 16)

    def ask(self, connection):
        connection.sendall(b"GET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        said = b""
        while b'"ok"' not in said:
            piece = connection.recv(4096)
            self.assertTrue(piece, f"the connection was closed after {said}")
            said += piece

    @unittest.skipUnless(shutil.which("openssl"), "making certificates needs openssl")
    def test(self):
        self.certificate, self.key = self.folder / "fullchain.pem", self.folder / "privkey.pem"
        self.make(11)
        hub = self.serving(self.folder / "data", "--tls-cert", str(self.certificate), "--tls-key", str(self.key))
        with self.connect(hub.port) as before:
            self.ask(before)
            self.make(12)
            hub.process.send_signal(signal.SIGHUP)
            self.becomes("the new certificate is shown", lambda: self.serial(hub.port) == 12)
            self.ask(before)
            self.certificate.write_text("not a certificate\n")
            hub.process.send_signal(signal.SIGHUP)
            self.becomes("the log says that it is faulty", lambda: "the certificate before stays in use" in self.log_of(hub))
            self.assertEqual(self.serial(hub.port), 12)
            self.ask(before)

    @staticmethod
    def log_of(hub):
        hub.log.seek(0)
        return hub.log.read()


DRILLS = [Restore, AnotherMachine, CertificateRenewed]
