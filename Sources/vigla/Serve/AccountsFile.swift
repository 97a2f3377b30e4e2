import Accounts
import JSONTree

/// The file of `--accounts` (docs/accounts.md).
struct AccountsFile {
    /// What only makes sense together with options.
    struct Mail {
        var isPlaintext = false
        var certificates: String?
    }

    private let path: String
    private let source: String
    private let noted = JSONSection.Faults()

    init(_ path: String, source: String) {
        self.path = path
        self.source = source
    }

    var faults: [String] { noted.lines }

    mutating func read(into accounts: inout AccountSettings, _ mail: inout Mail) {
        let bytes: [UInt8]
        switch WholeFile.read(path) {
        case .failure(let fault): return noted.lines.append("\(source): cannot read \(path): \(fault)")
        case .success(let read): bytes = read
        }
        let value: JSONValue
        do throws(JSONError) { value = try JSONValue(bytes) } catch { return noted.lines.append("\(source): \(path) is not JSON (byte \(error.offset)): \(error)") }
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
        if let days = file.number("idle-days", 0...3_650) { accounts.idleDays = days }
        if let hosts = file.texts("continue-hosts") { accounts.continueHosts = hosts.map { $0.lowercased() } }
        if let name = file.choice("signing", ["RS256", "ES256"]) { accounts.signingAlgorithm = name == "ES256" ? .es256 : .rs256 }
        if var section = file.section("mail") { read(&section, into: &accounts, &mail) }
        file.end()
    }

    private func read(_ section: inout JSONSection, into accounts: inout AccountSettings, _ mail: inout Mail) {
        if let app = section.text("app") { accounts.mail.app = app }
        if let folder = section.text("templates") { accounts.mail.templates = folder }
        if let flag = section.flag("plaintext") { mail.isPlaintext = flag }
        if let file = section.text("certificates") { mail.certificates = file }
        section.end()
    }
}
