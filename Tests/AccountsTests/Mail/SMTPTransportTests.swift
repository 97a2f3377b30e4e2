import DispatchNet
import Foundation
import TestCertificates
import Testing

@testable import Mail

/// Over real sockets, with the system's libcurl.
@Suite(.timeLimit(.minutes(30))) struct SMTPTransportTests {
    static let sender = MailSender(MailAddress("hub@mail.example.org")!, name: "Βίγλα: \"the\" <hub>")

    static func message(_ subject: String = "Your link", text: String = "Hello\n.\nΓεια σας\n") -> Message {
        Message(
            kind: .resetPassword, language: "el", to: MailAddress("ana+test@example.org")!, subject: subject, text: text,
            html: "<p>Γεια σας</p>",
            link: "http://localhost/?oobCode=c0de")
    }

    private func deliver(_ settings: SMTPSettings, _ message: Message = message()) async -> MailFault? {
        do throws(MailFault) { try await SMTPTransport(settings, now: { 1_795_314_525_000 }).deliver(message); return nil } catch {
            return error
        }
    }

    private func plain(_ server: SMTPTestServer, user: String? = nil, password: String? = nil) throws -> SMTPSettings {
        try SMTPSettings(url: "smtp://127.0.0.1:\(server.port)", sender: Self.sender, user: user, password: password, allowsPlaintext: true)
    }

    @Test func message_arrives_asItWasWritten() async throws {
        let server = try SMTPTestServer()
        #expect(await deliver(try plain(server)) == nil)
        let commands = server.commands
        #expect(commands.first == "EHLO mail.example.org")
        #expect(commands.contains { $0.hasPrefix("MAIL FROM:<hub@mail.example.org>") })
        #expect(commands.contains("RCPT TO:<ana+test@example.org>"))
        #expect(!commands.contains { $0.hasPrefix("AUTH") })
        let message = try ParsedMessage(try #require(server.messages.first))
        #expect(message["To"] == "<ana+test@example.org>")
        #expect(message["Date"] == "Sun, 22 Nov 2026 02:28:45 +0000")
        #expect(message["Subject"] == "Your link")
        #expect(message["From"]?.hasSuffix(" <hub@mail.example.org>") == true)
        #expect(message["From"].map { ParsedMessage.decodeWords(
            String($0.dropLast(" <hub@mail.example.org>".count))) } == "Βίγλα: \"the\" <hub>")
        #expect(message["Content-Language"] == "el")
        #expect(message.parts.map(\.type) == ["text/plain; charset=utf-8", "text/html; charset=utf-8"])
        #expect(message.parts.map(\.text) == ["Hello\r\n.\r\nΓεια σας\r\n", "<p>Γεια σας</p>"])
    }

    @Test func password_isSaid_whereItIsAskedFor() async throws {
        let server = try SMTPTestServer()
        #expect(await deliver(try plain(server, user: "hub", password: "s3cret")) == nil)
        let said = Data("\0hub\0s3cret".utf8).base64EncodedString()
        #expect(server.commands.contains { $0.hasSuffix(said) })
        #expect(server.messages.count == 1)
    }

    @Test func check80_faults_nameNoSecret() async throws {
        let server = try SMTPTestServer { verb, _ in verb == "PASSWORD" ? "535 5.7.8 wrong: hub s3cret" : nil }
        let fault = try #require(await deliver(try plain(server, user: "hub", password: "s3cret")))
        #expect(!fault.text.contains("s3cret") && !fault.text.contains("ana"))
        guard case .later = fault else { return #expect(Bool(false), "a wrong password is for the operator to mend: \(fault)") }
        #expect(server.messages.isEmpty)
    }

    /// Covers a man in the middle who removes STARTTLS from the reply.
    @Test func nothing_isSaid_withoutTLS() async throws {
        let server = try SMTPTestServer()
        let settings = try SMTPSettings(url: "smtp://127.0.0.1:\(server.port)", sender: Self.sender, user: "hub", password: "s3cret")
        let fault = try #require(await deliver(settings))
        guard case .later = fault else { return #expect(Bool(false), "\(fault)") }
        #expect(!server.commands.contains { $0.hasPrefix("AUTH") || $0.hasPrefix("MAIL") })
    }

    @Test func message_arrives_overTLS_fromATrustedServerOnly() async throws {
        let files = try TestCertificates.get()
        let server = try SMTPTestServer(tls: try TLSServer(certificate: files.certificate("server"), key: files.key("server")))
        let url = "smtps://localhost:\(server.port)"
        #expect(await deliver(
            try SMTPSettings(url: url, sender: Self.sender, user: "hub", password: "s3cret", certificates: files.authority)) == nil)
        #expect(server.messages.count == 1)
        guard case .later = await deliver(try SMTPSettings(url: url, sender: Self.sender, user: "hub", password: "s3cret")) else {
            return #expect(Bool(false), "a server that nobody vouches for was trusted")
        }
        #expect(server.messages.count == 1)
    }

    @Test func refusedRecipient_isFinal_busyServerIsNot() async throws {
        let strict = try SMTPTestServer { verb, _ in verb == "RCPT" ? "550 5.1.1 no such user" : nil }
        guard case .never = await deliver(try plain(strict)) else { return #expect(Bool(false)) }
        let busy = try SMTPTestServer { verb, _ in verb == "RCPT" ? "451 4.3.0 later" : nil }
        guard case .later = await deliver(try plain(busy)) else { return #expect(Bool(false)) }
        let full = try SMTPTestServer { verb, _ in verb == "END" ? "452 4.2.2 full" : nil }
        guard case .later = await deliver(try plain(full)) else { return #expect(Bool(false)) }
        let gone = try SMTPSettings(url: "smtp://127.0.0.1:1", sender: Self.sender, allowsPlaintext: true)
        guard case .later = await deliver(gone) else { return #expect(Bool(false)) }
    }

    @Test func message_cannotAddHeadersOrRecipients() async throws {
        let server = try SMTPTestServer()
        let evil = "x\r\nBcc: all@example.org\r\n\r\nbody\r\n.\r\nRCPT TO:<all@example.org>"
        #expect(await deliver(try plain(server), Self.message(evil, text: evil)) == nil)
        #expect(server.messages.count == 1)
        #expect(server.commands.filter { $0.hasPrefix("RCPT") }.count == 1)
        let message = try ParsedMessage(try #require(server.messages.first))
        #expect(message["Bcc"] == nil)
        #expect(message["Subject"].map { ParsedMessage.decodeWords($0) } == evil)
        for address in ["a@x.org\r\nBcc: b@x.org", "a@x.org>\r\nRCPT TO:<b@x.org", "<a@x.org>", "a b@x.org", "\"a\"@x.org",
            "a@x.org,b@x.org", "α@x.org", "a@χ.org",
            "a@x..org", ".a@x.org", "a.@x.org", "@x.org", "a@", "a", "a@x@y", "a@x.org\0", String(repeating: "a", count: 65) + "@x.org"] {
            #expect(MailAddress(address) == nil, "\(address)")
        }
        for address in [
            "a@x.org", "a.b+c_d@sub.example-x.org", "o'neil@x.org", String(repeating: "a", count: 64) + "@x.org", "root@localhost",
        ] {
            #expect(MailAddress(address) != nil, "\(address)")
        }
    }

    @Test func settings_sayWhatIsWrong() throws {
        func fault(_ url: String, user: String? = nil, password: String? = nil, plaintext: Bool = false) -> SMTPFault? {
            do throws(SMTPFault) {
                _ = try SMTPSettings(url: url, sender: Self.sender, user: user, password: password, allowsPlaintext: plaintext)
                return nil
            } catch { return error }
        }
        for url in ["", "mail.example.org", "http://mail.example.org", "smtp://", "smtp://a:b@mail.example.org",
            "smtp://mail.example.org:0", "smtp://mail.example.org:x",
            "smtp://mail.example.org/path", "smtp://mail example.org", "smtp://x?y"] {
            guard case .url = fault(url) else { #expect(Bool(false), "\(url)"); continue }
        }
        for url in ["smtp://mail.example.org", "smtps://mail.example.org:465/", "smtp://[::1]:25", "smtp://192.0.2.1"] {
            #expect(fault(url) == nil, "\(url)")
        }
        #expect(try SMTPSettings(url: "smtp://x.org", sender: Self.sender).port == 587)
        #expect(try SMTPSettings(url: "smtps://x.org", sender: Self.sender).port == 465)
        #expect(try SMTPSettings(url: "smtp://[::1]", sender: Self.sender).port == 587)
        #expect(fault("smtp://x.org", user: "u") == .credentials)
        #expect(fault("smtp://x.org", user: "u\n", password: "p") == .credentials)
        #expect(fault("smtp://x.org", user: "u", password: "p", plaintext: true) == .plaintextPassword)
        #expect(fault("smtp://localhost", user: "u", password: "p", plaintext: true) == nil)
        #expect(fault("smtp://x.org", user: "u", password: "p") == nil)
    }
}

/// A message, parsed by other code than that which composed it.
struct ParsedMessage {
    struct Broken: Error {}

    private var headers: [(name: String, value: String)] = []
    var parts: [(type: String, text: String)] = []

    subscript(name: String) -> String? { headers.first { $0.name == name }?.value }

    init(_ text: String) throws {
        let lines = text.components(separatedBy: "\n")
        let end = try #require(lines.firstIndex(of: ""))
        headers = try Self.headers(lines[..<end])
        let boundary = try #require(self["Content-Type"]?.components(separatedBy: "boundary=\"").last?.dropLast())
        var sections = lines[(end + 1)...].split(separator: "--" + boundary, omittingEmptySubsequences: false)
        guard sections.removeFirst().isEmpty, let last = sections.popLast(), last.contains("--\(boundary)--") else { throw Broken() }
        sections.append(last.prefix { $0 != "--\(boundary)--" })
        for section in sections {
            let end = try #require(section.firstIndex(of: ""))
            let headers = try Self.headers(section[..<end])
            guard headers.first(where: { $0.name == "Content-Transfer-Encoding" })?.value == "base64" else { throw Broken() }
            guard section.allSatisfy({ $0.utf8.count <= 78 }) else { throw Broken() }
            let data = try #require(Data(base64Encoded: section[(end + 1)...].joined()))
            parts.append((try #require(headers.first { $0.name == "Content-Type" }).value, String(decoding: data, as: UTF8.self)))
        }
    }

    private static func headers(_ lines: ArraySlice<String>) throws -> [(name: String, value: String)] {
        var out: [(name: String, value: String)] = []
        for line in lines {
            guard line.utf8.count <= 998, line.utf8.allSatisfy({ 0x20...0x7E ~= $0 }) else { throw Broken() }
            if line.hasPrefix(" "), !out.isEmpty { out[out.count - 1].value += line; continue }
            let sides = line.components(separatedBy: ": ")
            guard sides.count >= 2 else { throw Broken() }
            out.append((sides[0], sides.dropFirst().joined(separator: ": ")))
        }
        return out
    }

    /// RFC 2047 words, all of them UTF-8 in base64.
    static func decodeWords(_ text: String) -> String {
        let words = text.components(separatedBy: " ")
        guard words.allSatisfy({ $0.hasPrefix("=?UTF-8?B?") && $0.hasSuffix("?=") && $0.utf8.count <= 75 }) else {
            return "not encoded: " + text
        }
        return words.map { Data(
            base64Encoded: String($0.dropFirst(10).dropLast(2))).map { String(decoding: $0, as: UTF8.self) } ?? "?" }.joined()
    }
}
