import Accounts
import HubServer
import JSONTree
import Mail
import Tokens

/// The file of `--accounts` (docs/accounts.md).
struct AccountsFile {
    /// Settings that are only complete together with options.
    struct Mail {
        var isPlaintext: Bool?
        var certificates: String?
    }

    /// Server settings for accounts.
    struct Network {
        var trustedProxies: TrustedProxies?
        var requestsOfNetwork: Int?
    }

    /// The given members that concern the whole hub, and so have no effect in the file of one database.
    static func membersOfHub(_ mail: Mail, _ network: Network) -> [String] {
        let members: [(name: String, isGiven: Bool)] = [
            ("\"mail\": \"plaintext\"", mail.isPlaintext != nil), ("\"mail\": \"certificates\"", mail.certificates != nil),
            ("\"trusted-proxies\"", network.trustedProxies != nil),
            ("\"throttle\": \"requests-at-once-per-network\"", network.requestsOfNetwork != nil),
        ]
        return members.filter(\.isGiven).map(\.name)
    }

    private let path: String
    private let source: String
    private let noted = JSONSection.Faults()

    init(_ path: String, source: String) {
        self.path = path
        self.source = source
    }

    var faults: [String] { noted.lines }

    mutating func read(into accounts: inout AccountSettings, _ mail: inout Mail, _ network: inout Network) {
        let bytes: [UInt8]
        switch WholeFile.read(path) {
        case .failure(let fault): return noted.lines.append("\(source): cannot read \(path): \(fault)")
        case .success(let read): bytes = read
        }
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue(bytes) } catch {
            return noted.lines.append("\(source): \(path) is not JSON (byte \(error.offset)): \(error)")
        }
        var file = JSONSection(value, place: path, faults: noted)
        if let mode = file.choice("sign-up", ["open", "admin"]) { accounts.allowsSignUp = mode == "open" }
        if let flag = file.flag("anonymous") { accounts.allowsAnonymous = flag }
        if let flag = file.flag("passwords") { accounts.allowsPasswords = flag }
        if let flag = file.flag("email-links") { accounts.allowsEmailLink = flag }
        if let flag = file.flag("enumeration-protection") { accounts.hidesAccounts = flag }
        if let flag = file.flag("oauth-password") { accounts.allowsPasswordGrant = flag }
        if let length = file.number("min-password", 6...128) { accounts.passwords.minLength = length }
        if let flag = file.flag("refuse-common-passwords") { accounts.passwords.refusesCommon = flag }
        if let seconds = file.number("recent-login-seconds", 0...86_400) { accounts.recentLoginSeconds = seconds }
        if let name = file.choice("rotate-refresh-tokens", RefreshTokenRotation.allCases.map(\.rawValue)) {
            accounts.refreshRotation = RefreshTokenRotation(rawValue: name) ?? accounts.refreshRotation
        }
        if let days = file.number("idle-days", 0...3_650) { accounts.idleDays = days }
        if let count = file.number("sessions-per-account", 1...10_000) { accounts.sessionsOfAccount = count }
        if let days = file.number("guest-days", 0...3_650) { accounts.guestDays = days }
        if let days = file.number("audit-days", 0...3_650) { accounts.auditDays = days }
        if let hosts = file.texts("continue-hosts") { accounts.continueHosts = hosts.map { $0.lowercased() } }
        if let name = file.choice("signing", ["RS256", "ES256"]) { accounts.signingAlgorithm = name == "ES256" ? .es256 : .rs256 }
        if var section = file.section("mail") { read(&section, into: &accounts, &mail) }
        if var section = file.section("throttle") { read(&section, into: &accounts.throttle, &network) }
        if let texts = file.texts("trusted-proxies") {
            do throws(TrustedProxies.NoAddress) { network.trustedProxies = try TrustedProxies(texts) } catch {
                file.addFault("trusted-proxies", "\(error)")
            }
        }
        readProviders(&file, into: &accounts)
        accounts.externalIssuers = file.sections("issuers").compactMap(issuer)
        readCustomTokenKeys(&file, into: &accounts)
        file.end()
    }

    // MARK: Other services

    private func readProviders(_ file: inout JSONSection, into accounts: inout AccountSettings) {
        if var google = file.section("google") {
            // Keys at another address are those of a mirror or a test.
            let (ids, domain, keys) = (clientIDs(&google), google.text("hosted-domain"), url(&google, "keys"))
            google.end()
            if let ids {
                var provider = IdentityProvider.google(clientIDs: ids, hostedDomain: domain)
                if let keys { provider.keys = .keySet(keys) }
                accounts.identityProviders.append(provider)
            }
        }
        if var apple = file.section("apple") {
            let ids = clientIDs(&apple)
            apple.end()
            if let ids { accounts.identityProviders.append(.apple(clientIDs: ids)) }
        }
        guard var others = file.section("oidc") else { return }
        for name in others.names {
            guard var provider = others.section(name) else { continue }
            let (issuer, ids, keys) = (url(&provider, "issuer", isNeeded: true), clientIDs(&provider), url(&provider, "keys"))
            let needsNonce = provider.flag("nonce") ?? false
            let domains = domains(&provider)
            provider.end()
            guard name.hasPrefix("oidc."), name.utf8.count > 5, name == name.lowercased() else {
                others.addFault(name, "a provider's name is \"oidc.\" and a name of its own in lower case")
                continue
            }
            guard let issuer, let ids else { continue }
            accounts.identityProviders.append(
                .openID(
                    name, issuer: issuer, clientIDs: ids, keys: keys.map { .keySet($0) }, needsNonce: needsNonce,
                    authoritativeDomains: domains))
        }
        others.end()
    }

    /// The domains whose addresses the provider may assign.
    private func domains(_ section: inout JSONSection) -> [String] {
        let name = "authoritative-domains"
        let domains = (section.texts(name) ?? []).map { $0.lowercased() }
        for domain in domains {
            if !IdentityProvider.isDomain(domain) {
                section.addFault(
                    name, "\"\(domain.prefix(64))\" is not a domain; write each one whole, such as school.example, without @ or *")
            } else if let owner = IdentityProvider.owner(ofDomain: domain) {
                section.addFault(name, "\(owner) gives out the addresses of \(domain): this provider cannot say whose they are")
            }
        }
        return domains
    }

    private func clientIDs(_ section: inout JSONSection) -> [String]? {
        let ids = section.texts("client-ids")
        if ids?.isEmpty ?? true {
            section.addFault("client-ids", "name the app's own ids at the provider: without them anybody's tokens would count")
        }
        return ids
    }

    private func issuer(_ section: JSONSection) -> ExternalIssuer? {
        var section = section
        let (issuer, audiences, keys) = (url(&section, "issuer", isNeeded: true), section.texts("audiences"), url(&section, "keys"))
        section.end()
        guard let issuer else { return nil }
        guard let audiences, !audiences.isEmpty else {
            section.addFault("audiences", "name the values of \"aud\" that are meant for this app")
            return nil
        }
        return ExternalIssuer(issuer: issuer, audiences: audiences, keys: keys.map { .keySet($0) })
    }

    private func url(_ section: inout JSONSection, _ name: String, isNeeded: Bool = false) -> String? {
        guard let text = section.text(name, "an address") else {
            if isNeeded { section.addFault(name, "an address such as https://accounts.example is needed") }
            return nil
        }
        let isLocal = text.hasPrefix("http://localhost") || text.hasPrefix("http://127.0.0.1")
        guard text.hasPrefix("https://") || isLocal else {
            section.addFault(name, "expected an address that begins with https://")
            return nil
        }
        return text
    }

    /// Names of service accounts and the files of their public keys.
    private func readCustomTokenKeys(_ file: inout JSONSection, into accounts: inout AccountSettings) {
        guard var section = file.section("custom-token-keys") else { return }
        for name in section.names {
            guard let path = section.text(name, "the file of a public key") else { continue }
            switch WholeFile.read(path) {
            case .failure(let fault): section.addFault(name, "\(path): \(fault)")
            case .success(let bytes):
                do { accounts.customTokenIssuers.append(
                    try CustomTokenIssuer(name: name, publicKeys: [String(decoding: bytes, as: UTF8.self)])
                ) } catch {
                    section.addFault(name, "\(path) holds no public RSA key of at least 2048 bits (PEM, BEGIN PUBLIC KEY)")
                }
            }
        }
        section.end()
    }

    // MARK: Mail

    private func read(_ section: inout JSONSection, into accounts: inout AccountSettings, _ mail: inout Mail) {
        if let app = section.text("app") { accounts.mail.app = app }
        if let folder = section.text("templates") { accounts.mail.templates = folder }
        if let flag = section.flag("plaintext") { mail.isPlaintext = flag }
        if let file = section.text("certificates") { mail.certificates = file }
        section.end()
    }
}
