import Foundation
import TestCertificates
import Testing
import TestSupport

/// A hub with a certificate, from the outside: its options, the commands, and Python's `ssl` as a client that shares no code with it.
@Suite(.timeLimit(.minutes(30))) struct TLSTests {
    @Test func readyLine_saysHTTPS_andTheCommandsWorkOverIt() throws {
        let files = try TestCertificates.get()
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"] + Self.options("server"))
        #expect(hub.url.hasPrefix("https://127.0.0.1:"))
        let url = hub.url.replacingOccurrences(of: "127.0.0.1", with: "localhost")
        #expect(try Command.run("set", url + "/a", #"{"x":1}"#, "--tls-ca", files.authority).code == 0)
        #expect(try Command.run("get", url + "/a", environment: ["VIGLA_TLS_CA": files.authority]).output == "{\"x\":1}\n")
        #expect(try Command.run(
            "watch", hub.url.replacingOccurrences(of: "https", with: "wss") + "/a", "--count", "1", "--tls-ca", files.authority).code == 0)
        #expect(try Command.run("health", url, "--tls-ca", files.authority).code == 0)
        let port = hub.url.split(separator: ":").last.map(String.init) ?? ""
        // The image's health check runs this.
        #expect(
            try Command.run("health", environment: ["VIGLA_PORT": port, "VIGLA_TLS_CERT": "set", "VIGLA_TLS_CA": files.authority]).code == 0
        )
        // The certificate itself may be the trusted one.
        #expect(try Command.run("health", url, "--tls-ca", files.certificate("server")).code == 0)
    }

    @Test func commands_takeLeave_soThatNoStreamCountsAsTruncated() throws {
        let authority = try TestCertificates.get().authority
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--log-level", "debug"] + Self.options("server"))
        let place = hub.url.replacingOccurrences(of: "127.0.0.1", with: "localhost") + "/a"
        for command in [["set", place, "1"], ["get", place], ["watch", place, "--count", "1"], ["push", place, "2"], ["remove", place]] {
            #expect(try Command.run(command + ["--tls-ca", authority]).code == 0)
        }
        #expect(hub.stop() == 0)
        #expect(hub.error.contains("connection ended"))
        #expect(!hub.error.contains("truncated"))
    }

    @Test func unknownAuthority_isRefused_andSaysWhatToDo() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"] + Self.options("server"))
        for command in [["get", hub.url], ["health", hub.url]] {
            let result = try Command.run(command)
            #expect(result.code == 1)
            #expect(result.error.contains("not trusted here"))
            #expect(result.error.contains("--tls-ca FILE"))
        }
        let folder = try TemporaryFolder()
        let wrong = try Command.run("get", hub.url, "--tls-ca", folder.file("none.pem", "nothing"))
        #expect(wrong.code == 1)
        #expect(wrong.error.contains("none.pem holds no certificate"))
    }

    @Test func certificateOfAnotherHost_isRefused_unlessThatIsWhoIsMeant() throws {
        let files = try TestCertificates.get()
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"] + Self.options("elsewhere"))
        #expect(try Command.run("health", hub.url, "--tls-ca", files.authority).error.contains("--tls-name HOST"))
        #expect(try Command.run("health", hub.url, "--tls-ca", files.authority, "--tls-name", "hub.example").code == 0)
        #expect(
            try Command.run("health", hub.url, environment: ["VIGLA_TLS_CA": files.authority, "VIGLA_TLS_NAME": "hub.example"]).code == 0)
    }

    @Test func expiredCertificate_isRefused_andTheHubWarns() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"] + Self.options("expired"))
        #expect(try Command.run(
            "health", hub.url, "--tls-ca", TestCertificates.get().authority, "--tls-name",
            "localhost").error.contains("certificate has expired"))
        #expect(hub.error.contains("the certificate has expired"))
    }

    @Test func plainAndSecure_standSideBySide_whenAsked() throws {
        let files = try TestCertificates.get()
        let folder = try TemporaryFolder()
        let config = try folder.file(
            "hub.json", #"{"tls-cert":"\#(files.certificate("server"))","tls-key":"\#(files.key("server"))","tls-port":0,"port":0,"#
                + #""memory":true,"dev":true}"#)
        let hub = try RunningHub(["--config", config], folder: folder)
        #expect(hub.readyLine.hasPrefix("vigla ready on \(hub.url) and \(hub.secureURL) (namespace"))
        #expect(hub.url.hasPrefix("http://"))
        #expect(try Command.run("set", hub.url + "/a", "1").code == 0)
        #expect(try Command.run("get", hub.secureURL + "/a", "--tls-ca", files.authority).output == "1\n")
        let wrong = try Command.run("get", hub.secureURL.replacingOccurrences(of: "https", with: "http"))
        #expect(wrong.code == 1)
        #expect(wrong.error.contains("This port speaks TLS. Use https or wss."))
        #expect(try Command.run("get", hub.url.replacingOccurrences(of: "http", with: "https")).error.contains("it does not speak TLS"))
    }

    @Test func faultsOfTheFiles_areToldTogether_withoutAnyOfTheKey() throws {
        let files = try TestCertificates.get()
        let folder = try TemporaryFolder()
        func faults(_ options: String..., environment: [String: String] = [:]) throws -> String {
            let result = try Command.run(["serve", "--port", "x", "--memory"] + options, environment: environment, in: folder.url)
            #expect(result.code == 78)
            // Reported with the others, before a port opens.
            #expect(result.error.contains("--port: \"x\""))
            #expect(result.output == "")
            let secret = try String(contentsOfFile: files.key("server"), encoding: .utf8).split(separator: "\n")[1]
            #expect(!result.error.contains(secret))
            return result.error
        }
        let (certificate, key) = (files.certificate("server"), files.key("server"))
        #expect(try faults("--tls-cert", certificate).contains("--tls-cert: TLS needs the private key too (--tls-key)"))
        #expect(try faults("--tls-key", key).contains("--tls-key: TLS needs the certificate too (--tls-cert)"))
        #expect(try faults("--tls-port", "1").contains("--tls-port: TLS needs a certificate and its key"))
        #expect(
            try faults("--tls-port", "many", "--tls-cert", certificate, "--tls-key", key).contains("--tls-port: \"many\" is not a port"))
        let missing = try faults("--tls-cert", "none.pem", "--tls-key", "none.key")
        #expect(missing.contains("--tls-cert: cannot read none.pem: no such file or directory"))
        #expect(missing.contains("--tls-key: cannot read none.key: no such file or directory"))
        if getuid() != 0 {
            let shut = try folder.file("shut.key", "")
            chmod(shut, 0)
            #expect(try faults("--tls-cert", certificate, "--tls-key", shut).contains("permission denied. The hub runs as "))
        }
        #expect(try faults(environment: ["VIGLA_TLS_CERT": certificate, "VIGLA_TLS_KEY": files.key("renewed")])
            .contains("VIGLA_TLS_KEY: the private key in \(files.key("renewed")) does not belong to the certificate in \(certificate)"))
        #expect(try faults(
            "--tls-cert", certificate, "--tls-key",
            files.key("encrypted")).contains("encrypted.key is encrypted; write it without passphrase"))
        let swapped = try faults("--tls-cert", key, "--tls-key", certificate)
        #expect(swapped.contains("server.key holds no certificate"))
        #expect(swapped.contains("server.pem holds no private key"))
        let damaged = try folder.file(
            "damaged.pem", String(contentsOfFile: certificate, encoding: .utf8).replacingOccurrences(of: "MII", with: "MIJ"))
        #expect(try faults("--tls-cert", damaged, "--tls-key", key).contains("damaged.pem"))
    }

    // MARK: An independent client

    @Test func python_speaksBothVersions_resumes_andHearsAGoodbye() throws {
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"] + Self.options("server"))
        let said = try Self.python(hub, """
            for version in ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3:
                c = context(version)
                first = ask(c)
                again = ask(c, first.session)
                print(first.version, first.status, first.reused, again.status, again.reused)
            c = context(); c.set_alpn_protocols(["h2", "http/1.1"])
            print(ask(c).protocol)
            c = context(); c.set_alpn_protocols(["h2"])
            try: ask(c); print("accepted")
            except ssl.SSLError as e: print("no application protocol" in str(e))
            print(ask(context(), target="/.lp?start=t&ser=1&cb=1&v=5").status)
            """)
        #expect(said == ["TLSv1.2 200 False 200 True", "TLSv1.3 200 False 200 True", "http/1.1", "True", "200"])
    }

    @Test func hangup_renewsTheCertificate_keepsOpenSockets_andSurvivesABadFile() throws {
        let files = try TestCertificates.get()
        let folder = try TemporaryFolder()
        func install(_ name: String) throws {
            for (from, to) in [(files.certificate(name), "hub.pem"), (files.key(name), "hub.key")] {
                try Data(contentsOf: URL(fileURLWithPath: from)).write(to: folder.url.appendingPathComponent(to))
            }
        }
        try install("server")
        let hub = try RunningHub(["--port", "0", "--memory", "--dev", "--tls-cert", "hub.pem", "--tls-key", "hub.key"], folder: folder)
        let python = try Self.start(hub, """
            old = ask(context(ssl.TLSVersion.TLSv1_3))
            c = context(ssl.TLSVersion.TLSv1_3)
            session = ask(c).session
            open_socket = websocket()
            print(old.name, command(open_socket), flush=True)
            sys.stdin.readline()
            until(lambda: ask(context()).name == "renewed")
            print("renewed", command(open_socket), ask(c, session).reused, flush=True)
            sys.stdin.readline()
            print(ask(context()).name, command(open_socket), flush=True)
            """)
        #expect(python.line() == "server ok")
        try install("renewed")
        kill(hub.process.processIdentifier, SIGHUP)
        python.resume()
        #expect(python.line() == "renewed ok True")
        _ = try folder.file("hub.pem", "-----BEGIN CERTIFICATE-----\nnot one\n-----END CERTIFICATE-----\n")
        kill(hub.process.processIdentifier, SIGHUP)
        #expect(becomes { hub.error.contains("the certificate before stays in use") })
        #expect(hub.error.contains("hub.pem"))
        python.resume()
        #expect(python.line() == "renewed ok")
        #expect(hub.stop() == 0)
    }

    @Test func bigMessages_goBothWays() throws {
        let files = try TestCertificates.get()
        let hub = try RunningHub(["--port", "0", "--memory", "--dev"] + Self.options("server"))
        let text = String(repeating: "0123456789abcdef", count: 300_000)
        #expect(try Command.run("set", hub.url + "/big", "-", "--tls-ca", files.authority, input: "\"\(text)\"").code == 0)
        let isSame = try Command.run("get", hub.url + "/big", "--tls-ca", files.authority).output == "\"\(text)\"\n"
        #expect(isSame)
    }

    private static func options(_ name: String) throws -> [String] {
        let files = try TestCertificates.get()
        return ["--tls-cert", files.certificate(name), "--tls-key", files.key(name)]
    }

    private static func python(_ hub: RunningHub, _ body: String) throws -> [String] {
        let python = try start(hub, body)
        var lines: [String] = []
        while let line = python.line() { lines.append(line) }
        return lines
    }

    private static func start(_ hub: RunningHub, _ body: String) throws -> Python {
        let address = hub.url.split(separator: ":").last.map(String.init) ?? ""
        return try Python(prelude + body, [address, TestCertificates.get().authority])
    }

    private static let prelude = """
        import base64, os, socket, ssl, sys, time, types
        port, authority = int(sys.argv[1]), sys.argv[2]
        def context(version=None):
            made = ssl.create_default_context(cafile=authority)
            if version: made.minimum_version = made.maximum_version = version
            return made
        def dial(c, session=None):
            raw = socket.create_connection(("127.0.0.1", port), timeout=20)
            # A missing close_notify is an error here.
            return c.wrap_socket(raw, server_hostname="localhost", session=session, suppress_ragged_eofs=False)
        def ask(c, session=None, target="/.health"):
            with dial(c, session) as s:
                s.sendall(f"GET {target} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n".encode())
                answer = b""
                while part := s.recv(65536): answer += part
                name = dict(pair for group in s.getpeercert()["subject"] for pair in group)["commonName"] if not s.session_reused else None
                return types.SimpleNamespace(status=answer.split(b" ")[1].decode(), version=s.version(), reused=s.session_reused,
                    session=s.session, protocol=s.selected_alpn_protocol(), name=name)
        def websocket():
            s = dial(context())
            s.sendall(b"GET /.observe HTTP/1.1\\r\\nHost: localhost\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
                b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n")
            answer = b""
            while b"\\r\\n\\r\\n" not in answer: answer += s.recv(65536)
            assert b" 101 " in answer
            return s
        def command(s):
            text = b'{"id":1,"op":"get","path":"/a"}'
            s.sendall(bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
            return "ok" if b'"ok"' in s.recv(65536) else "refused"
        def until(condition):
            end = time.monotonic() + 20
            while not condition(): assert time.monotonic() < end

        """
}

/// A Python program controlled line by line.
private final class Python {
    private let process: ChildProcess
    private let output = Pipe()
    private let input = Pipe()

    init(_ program: String, _ arguments: [String]) throws {
        process = try ChildProcess(
            "/usr/bin/env", ["python3", "-c", program] + arguments, input: .handle(input.fileHandleForReading),
            output: .handle(output.fileHandleForWriting))
        try output.fileHandleForWriting.close()
    }

    /// The next line; nil at the end of the program.
    func line() -> String? {
        var line = Data()
        while let byte = try? output.fileHandleForReading.read(upToCount: 1), let first = byte.first {
            if first == 0x0A { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
        return nil
    }

    func resume() { try? input.fileHandleForWriting.write(contentsOf: Data("\n".utf8)) }

    deinit {
        if process.isRunning { process.terminate() }
        process.waitUntilExit()
    }
}
