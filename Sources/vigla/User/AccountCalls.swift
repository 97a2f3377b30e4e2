import Accounts
import ArgumentParser
import JSONTree
import ViglaClient

/// A hub whose accounts are administered.
struct AccountHub: ParsableArguments {
    @Argument(
        help: "The hub, such as http://127.0.0.1:9000 (?ns=NAME: the accounts of another database than the default).",
        transform: HubURL.init(argument:))
    var url: HubURL
    @OptionGroup var credential: AdminCredential
    @OptionGroup var tlsOptions: TLSOptions

    var calls: AccountCalls { AccountCalls(url: url, credential: credential, tlsOptions: tlsOptions) }

    func validate() throws { try url.refusePath("Accounts belong to a whole database") }
}

/// Calls to a hub's accounts. Every call waits for its answer, and ends the program if the hub refuses.
struct AccountCalls {
    private let address: HubAddress
    private let credential: AdminCredential
    private let secret: String?
    private let tls: TLSOptions
    /// A hint behind the message when the hub has no accounts or cannot search them.
    private let otherwise: String?

    init(url: HubURL?, credential: AdminCredential, tlsOptions: TLSOptions, otherwise: String? = nil) {
        guard let url else { fail("no hub was named") }
        address = url.address
        self.credential = credential
        secret = credential.read()
        tls = tlsOptions
        self.otherwise = otherwise
    }

    /// Calls endpoints that only this program uses.
    func operate(_ name: String, _ members: [JSONValue.Member]) -> JSONValue { ask("POST", "/.account/admin/\(name)", members) }

    /// Calls endpoints that the admin SDKs use as well; `-` is the hub's project.
    func administer(_ verb: String, _ members: [JSONValue.Member]) -> JSONValue {
        ask("POST", "/identitytoolkit.googleapis.com/v1/projects/-/accounts\(verb)", members)
    }

    func get(_ target: String) -> JSONValue { ask("GET", target, nil) }

    /// Passes all accounts, a page at a time.
    func eachAccount(_ body: (JSONValue) -> Void) {
        let first = "/identitytoolkit.googleapis.com/v1/projects/-/accounts:batchGet?maxResults=1000"
        var target = first
        while true {
            let page = get(target)
            for entry in page["users"]?.elements ?? [] { body(entry) }
            guard let next = page["nextPageToken"]?.string else { return }
            target = first + "&nextPageToken=\(UserText.escaped(next))"
        }
    }

    private func ask(_ method: String, _ target: String, _ members: [JSONValue.Member]?) -> JSONValue {
        switch answer(method, target, members) {
        case .success(let answer): return answer
        case .failure(let refusal): fail(refusal.words)
        }
    }

    /// An error answer of the contract: `CODE`, or `CODE : a sentence`.
    private struct Refusal: Error {
        let message: String
        var code: String { String(message.prefix { $0 != " " }) }

        /// The message for a person.
        var words: String {
            if let words = AccountCalls.words[code] { return words }
            guard let mark = message.firstRange(of: " : ") else { return message }
            let detail = message[mark.upperBound...]
            switch code {
            case "WEAK_PASSWORD": return "\(detail). Nothing was changed."
            case "FORBIDDEN_CLAIM": return "the claim '\(UserText.plain(String(detail)))' is the hub's own: choose another name."
            default: return message
            }
        }
    }

    /// Ends the program when the credential is refused, or when the hub has no accounts.
    private func answer(_ method: String, _ target: String, _ members: [JSONValue.Member]?) -> Result<JSONValue, Refusal> {
        let (status, body) = HubRequest.send(
            method, address.selecting(target), to: address, tls: tls, credential: secret,
            body: members.map { JSONValue.object($0).bytes } ?? [])
        let answer = (try? JSONValue(body)) ?? .null
        if status == 200 { return .success(answer) }
        if status == 401 || status == 403 { fail("\(address) refuses this (\(status)). \(credential.refused)") }
        guard let message = answer["error"]?["message"]?.string else {
            let doubt = "\(address) has no accounts to administer (\(status)): is it a hub, and not started with --accounts off?"
            fail(([doubt] + [otherwise].compactMap { $0 }).joined(separator: "\n"))
        }
        return .failure(Refusal(message: message))
    }

    /// Messages for the contract's codes.
    private static let words = [
        "USER_NOT_FOUND": "there is no such account.", "EMAIL_EXISTS": "another account has this address.",
        "DUPLICATE_LOCAL_ID": "another account has this id.",
        "ALIAS_EXISTS": "another account has this alias.", "SESSION_NOT_FOUND": "the account has no such session, or it is over.",
        "INVALID_ALIAS": "an alias has 1 to 64 letters, digits and . _ -, and no @.",
        "USER_DISABLED": "the account is disabled.", "INVALID_EMAIL": "this is no mail address.",
        "INVALID_CLAIMS": "claims are a JSON object.",
        "CLAIMS_TOO_LARGE": "the claims are too large.",
    ]

    /// The id of an account by id, address or alias; nil when there is no such account.
    func id(of user: String) -> String? {
        switch answer("POST", "/.account/admin/find", [.init("user", .string(user))]) {
        case .success(let answer): return answer["user"]?["localId"]?.string
        case .failure(let refusal) where refusal.code == "USER_NOT_FOUND": return nil
        case .failure(let refusal): fail(([refusal.words] + [otherwise].compactMap { $0 }).joined(separator: "\n"))
        }
    }

    /// The hub's password policy. The request needs the administrator's credential, so that a refused one shows before a password is typed.
    func passwordRule() -> PasswordRule {
        _ = get("/identitytoolkit.googleapis.com/v2/projects/-/config")
        let policy = get("/identitytoolkit.googleapis.com/v2/passwordPolicy?key=any")["customStrengthOptions"]
        return PasswordRule(
            leastCharacters: policy?["minPasswordLength"]?.int.flatMap { Int(exactly: $0) } ?? 6,
            mostBytes: policy?["maxPasswordLength"]?.int.flatMap { Int(exactly: $0) } ?? 4096)
    }

    /// The account with an id, address or alias.
    func find(_ user: String) -> (id: String, entry: JSONValue, alias: String?) {
        let answer = operate("find", [.init("user", .string(user))])
        guard let entry = answer["user"], let id = entry["localId"]?.string else { fail("the hub answered without an account") }
        return (id, entry, answer["alias"]?.string)
    }
}

/// The hub's length limits for passwords. The hub itself reports other refusals, such as very common passwords.
struct PasswordRule {
    /// Unicode scalars.
    let leastCharacters: Int
    /// Bytes of UTF-8.
    let mostBytes: Int

    /// Why a password is refused, in a sentence; nil when its length is valid.
    func fault(_ password: String) -> String? {
        let count = password.unicodeScalars.count
        if count < leastCharacters {
            return "this hub takes passwords of \(leastCharacters) characters or more, and this one has \(count). Nothing was changed."
        }
        return password.utf8.count > mostBytes ? "this hub takes passwords of up to \(mostBytes) bytes. Nothing was changed." : nil
    }
}

/// A password, never given as an argument: all users of the machine can read those.
struct PasswordSource: ParsableArguments {
    @Option(help: ArgumentHelp("File whose first line is the password; - for standard input. Default: it is asked for.", valueName: "file"))
    var passwordFile: String?

    /// Ends the program when no password is given, or when the rule does not allow it.
    func read(_ rule: PasswordRule) -> String {
        let password = read(leastCharacters: rule.leastCharacters)
        if let fault = rule.fault(password) { fail(fault) }
        return password
    }

    private func read(leastCharacters: Int) -> String {
        if let passwordFile {
            switch passwordFile == "-" ? WholeFile.read(0) : WholeFile.read(passwordFile) {
            case .failure(let fault): fail("--password-file: \(passwordFile): \(fault)")
            case .success(let bytes):
                let line = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
                guard !line.isEmpty else { fail("--password-file: the first line of \(passwordFile) is empty") }
                return line
            }
        }
        guard let first = Prompt.secret("Password (\(leastCharacters) characters or more): ") else {
            fail("there is no terminal to ask for the password: give it with --password-file FILE, or - for standard input")
        }
        guard !first.isEmpty, Prompt.secret("Once more: ") == first else { fail("the two are not alike, or empty; nothing was changed") }
        return first
    }
}
