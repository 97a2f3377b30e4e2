import Accounts
import ArgumentParser
import DispatchNet
import JSONTree
import ViglaClient

/// A hub whose accounts are administered.
struct AccountHub: ParsableArguments {
    @Argument(help: "The hub, such as http://127.0.0.1:9000.", transform: HubURL.init(argument:)) var url: HubURL
    @OptionGroup var credential: AdminCredential
    @OptionGroup var trust: Trust

    var calls: AccountCalls { AccountCalls(url: url, credential: credential, trust: trust) }
}

/// What this program asks of a hub's accounts. Every call waits for its answer, and ends the program when it is a refusal.
struct AccountCalls {
    private let address: HubAddress
    private let credential: AdminCredential
    private let secret: String?
    private let tls: TLSClient?

    init(url: HubURL?, credential: AdminCredential, trust: Trust) {
        guard let url else { fail("no hub was named") }
        address = url.address
        self.credential = credential
        secret = credential.read()
        tls = trust.client(for: url.address)
    }

    /// Endpoints of this program's own.
    func operate(_ name: String, _ members: [JSONValue.Member]) -> JSONValue { ask("POST", "/.account/admin/\(name)", members) }

    /// Endpoints that the admin SDKs use as well; `-` is the hub's project.
    func administer(_ verb: String, _ members: [JSONValue.Member]) -> JSONValue {
        ask("POST", "/identitytoolkit.googleapis.com/v1/projects/-/accounts\(verb)", members)
    }

    func get(_ target: String) -> JSONValue { ask("GET", target, nil) }

    /// All accounts, a page at a time.
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

    private func ask(_ method: StaticString, _ target: String, _ members: [JSONValue.Member]?) -> JSONValue {
        let (status, body) = AdminCall.ask(
            method, target, at: address, tls: tls, credential: secret, body: members.map { JSONValue.object($0).bytes } ?? [])
        let answer = (try? JSONValue(body)) ?? .null
        if status == 200 { return answer }
        if status == 401 || status == 403 { fail("\(address) refuses this (\(status)). \(credential.refused)") }
        guard let message = answer["error"]?["message"]?.string else {
            fail("\(address) has no accounts to administer (\(status)): is it a hub, and not started with --accounts off?")
        }
        fail(Self.words[String(message.prefix { $0 != " " })] ?? message)
    }

    /// The contract's codes for a person.
    private static let words = [
        "USER_NOT_FOUND": "there is no such account.", "EMAIL_EXISTS": "another account has this address.",
        "DUPLICATE_LOCAL_ID": "another account has this id.",
        "ALIAS_EXISTS": "another account has this alias.", "SESSION_NOT_FOUND": "the account has no such session, or it is over.",
        "INVALID_ALIAS": "an alias has 1 to 64 letters, digits and . _ -, and no @.",
        "USER_DISABLED": "the account is disabled.", "INVALID_EMAIL": "this is no mail address.",
        "INVALID_CLAIMS": "claims are a JSON object.",
        "CLAIMS_TOO_LARGE": "the claims are too large.",
    ]

    /// The account that a person means, by id, address or alias.
    func find(_ user: String) -> (id: String, entry: JSONValue, alias: String?) {
        let answer = operate("find", [.init("user", .string(user))])
        guard let entry = answer["user"], let id = entry["localId"]?.string else { fail("the hub answered without an account") }
        return (id, entry, answer["alias"]?.string)
    }
}

/// A password, never as an argument: all users of the machine can read those.
struct PasswordSource: ParsableArguments {
    @Option(help: ArgumentHelp("File whose first line is the password; - for standard input. Default: it is asked for.", valueName: "file"))
    var passwordFile: String?

    /// Ends the program when there is none.
    func read() -> String {
        if let passwordFile {
            switch passwordFile == "-" ? WholeFile.read(0) : WholeFile.read(passwordFile) {
            case .failure(let fault): fail("--password-file: \(passwordFile): \(fault)")
            case .success(let bytes):
                let line = String(decoding: bytes.prefix { $0 != 0x0A && $0 != 0x0D }, as: UTF8.self)
                guard !line.isEmpty else { fail("--password-file: the first line of \(passwordFile) is empty") }
                return line
            }
        }
        guard let first = Prompt.secret("Password: ") else {
            fail("there is no terminal to ask for the password: give it with --password-file FILE, or - for standard input")
        }
        guard !first.isEmpty, Prompt.secret("Once more: ") == first else { fail("the two are not alike, or empty; nothing was changed") }
        return first
    }
}
