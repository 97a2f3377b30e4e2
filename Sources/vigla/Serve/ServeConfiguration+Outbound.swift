import Accounts
import HubServer
import JSONTree
import Outbound

/// Where notifications and events go: the section `outbound` of the file of `--config` (docs/operations.md#deliveries).
///
///     { "outbound": {
///         "subject": "mailto:ops@example.org", "site": "https://app.example",
///         "ntfy": { "home": { "url": "https://ntfy.example", "token-file": "ntfy.token", "topic-prefix": "app-" } },
///         "webhooks": { "sms": { "url": "https://sms.example/send", "secret-file": "sms.secret", "devices": true } } } }
extension ServeConfiguration.Resolver {
    mutating func resolveOutbound() {
        guard let (value, source) = layers.section(.outbound) else { return }
        let noted = JSONSection.Faults()
        var section = JSONSection(value, place: source, faults: noted)
        made.settings.outbound = OutboundConfiguration(&section)
        faults += noted.lines
    }
}

extension OutboundConfiguration {
    /// Reads the section; its faults are recorded there. They name no secret.
    fileprivate init(_ section: inout JSONSection) {
        self.init()
        if let subject = section.text("subject") { section.check { () throws(ConfigurationFault) in try set(subject: subject) } }
        if let site = section.text("site") { section.check { () throws(ConfigurationFault) in try set(site: site) } }
        if let hosts = section.texts("private-hosts") {
            section.check { () throws(ConfigurationFault) in try set(privateHosts: hosts) }
        }
        if let path = section.text("certificates", "a file of certificates (PEM)") {
            switch WholeFile.read(path) {
            case .failure(let fault): section.addFault("certificates", "\(path): \(fault)")
            case .success(let bytes) where bytes.firstRange(of: Array("-----BEGIN CERTIFICATE-----".utf8)) == nil:
                section.addFault("certificates", "\(path) has no certificate (PEM, BEGIN CERTIFICATE)")
            case .success: certificates = path
            }
        }
        section.forEach("ntfy") { name, server in ntfyServers[name] = server.ntfyServer() }
        section.forEach("webhooks") { name, webhook in webhooks[name] = webhook.webhook() }
        section.end()
    }
}

extension JSONSection {
    /// Applies what was read; a fault is recorded under its member.
    fileprivate func check(_ apply: () throws(ConfigurationFault) -> Void) {
        do throws(ConfigurationFault) { try apply() } catch { addFault(error.member, error.text) }
    }

    /// Reads an object whose names are free, each for one object.
    fileprivate mutating func forEach(_ name: String, _ read: (_ name: String, inout JSONSection) -> Void) {
        guard var entries = section(name) else { return }
        for name in entries.names {
            guard var entry = entries.section(name) else { continue }
            if !Namespace.isValid(name) { entries.addFault(name, "a name has 1–64 letters, digits, - and _") }
            read(name, &entry)
            entry.end()
        }
        entries.end()
    }

    /// A secret text: the member itself, or the first line of the file that `<name>-file` names.
    private mutating func secret(_ name: String) -> String? {
        let (given, file) = (text(name), text("\(name)-file", "a file whose first line is the \(name)"))
        guard let file else { return given }
        if given != nil { addFault("\(name)-file", "there is a \"\(name)\" already: leave out one of the two") }
        switch WholeFile.read(file) {
        case .failure(let fault): addFault("\(name)-file", "\(file): \(fault)")
        case .success(let bytes):
            let line = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
            if !line.isEmpty { return line }
            addFault("\(name)-file", "the first line of \(file) is empty")
        }
        return nil
    }

    private mutating func url() -> String? {
        let (isGiven, url) = (names.contains("url"), text("url", "an address"))
        if !isGiven { addFault("url", "an address such as https://ntfy.example is needed") }
        return url
    }

    fileprivate mutating func ntfyServer() -> NtfyServer? {
        let (url, token, prefix, isPrivate) = (url(), secret("token"), text("topic-prefix"), flag("private") ?? false)
        // Users choose the topics of their devices.
        if token != nil, prefix == nil {
            addFault("token", "it is sent for topics with a prefix only, so that users cannot use it for others: add \"topic-prefix\"")
        }
        guard let url else { return nil }
        do throws(ConfigurationFault) {
            return try NtfyServer(url: url, token: token, topicPrefix: prefix, isPrivate: isPrivate)
        } catch {
            addFault(error.member, error.text)
            return nil
        }
    }

    fileprivate mutating func webhook() -> Webhook? {
        let (url, hasSecret) = (url(), names.contains { $0 == "secret" || $0 == "secret-file" })
        let secret = secret("secret")
        if !hasSecret { addFault("secret", "a text of 16 to 1,024 bytes is needed, or \"secret-file\": it signs the requests") }
        var fields: [(name: String, value: String)] = []
        if var headers = section("headers") {
            for name in headers.names { if let value = headers.text(name) { fields.append((name, value)) } }
            headers.end()
        }
        let seconds = number("timeout-seconds", 1...60) ?? 10
        let (isPrivate, acceptsDevices) = (flag("private") ?? false, flag("devices") ?? false)
        guard let url, let secret else { return nil }
        do throws(ConfigurationFault) {
            return try Webhook(
                url: url, secret: secret, fields: fields, timeoutSeconds: seconds, isPrivate: isPrivate, acceptsDevices: acceptsDevices)
        } catch {
            addFault(error.member, error.text)
            return nil
        }
    }
}

extension OutboundConfiguration {
    /// What is configured, without addresses and secrets: `Web Push, ntfy home, webhook sms`.
    var summary: String {
        let parts = (subject == nil ? [] : ["Web Push"]) + ntfyServers.keys.sorted().map { "ntfy \($0)" }
            + webhooks.keys.sorted().map { "webhook \($0)" }
        return parts.isEmpty ? "nothing" : parts.joined(separator: ", ")
    }
}
