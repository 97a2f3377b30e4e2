import Accounts
import ArgumentParser
import JSONTree

/// `vigla user import URL FILE`
struct UserImport: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import the accounts of a Firebase export, with their passwords.",
        discussion: """
            The file is that of 'firebase auth:export FILE --format=json'. The parameters of the hashes are in Firebase's console: \
            Authentication, Users, the menu beside 'Add user', password hash parameters. At the first sign-in the hub replaces the \
            hash of the password by one of its own. Existing accounts stay unchanged.

              vigla user import http://127.0.0.1:9000 accounts.json --signer-key-file key.txt --salt-separator Bw== --rounds 8 --mem-cost 14

            Prints each account that was refused, and why; then exits with 1.
            """)

    /// Accounts per request.
    private static let most = 500
    /// Members that the vendor's export and the hub share under the same names.
    private static let members = [
        "localId", "email", "emailVerified", "displayName", "photoUrl", "disabled", "createdAt", "customAttributes", "providerUserInfo",
        "passwordHash", "salt", "phoneNumber", "lastLoginAt", "mfaInfo",
    ]
    /// Members whose names in the vendor's export differ from the API.
    private static let renamed = ["lastSignedInAt": "lastLoginAt"]

    @OptionGroup var hub: AccountHub
    @Argument(help: "The export of Firebase.") var file: String
    @Option(help: ArgumentHelp("File whose first line is base64_signer_key; needed for accounts with passwords.", valueName: "file"))
    var signerKeyFile: String?
    @Option(help: "base64_salt_separator.") var saltSeparator = "Bw=="
    @Option(help: "rounds.") var rounds = 8
    @Option(help: "mem_cost.") var memCost = 14
    @Flag(help: "Overwrite existing accounts.") var overwrite = false
    @Flag(help: "Import accounts without their second factors, which a hub does not have. Without this they are refused.")
    var dropSecondFactors = false

    func validate() throws { try refuseSwapped(file, "vigla user import URL FILE") }

    func run() throws {
        let users = read()
        var shared: [JSONValue.Member] = []
        if users.contains(where: { $0["passwordHash"] != nil }) {
            guard let signerKeyFile else { fail("\(file) has passwords: the key of their hashes is needed (--signer-key-file)") }
            shared = [
                .init("hashAlgorithm", "SCRYPT"), .init("signerKey", .string(key(signerKeyFile))),
                .init("saltSeparator", .string(saltSeparator)), .init("rounds", .int(Int64(rounds))),
                .init("memoryCost", .int(Int64(memCost))),
            ]
        }
        if overwrite { shared.append(.init("allowOverwrite", true)) }
        let calls = hub.calls
        var (taken, refused) = (0, 0)
        for start in stride(from: 0, to: users.count, by: Self.most) {
            let part = Array(users[start..<min(users.count, start + Self.most)])
            let answer = calls.administer(":batchCreate", shared + [.init("users", .array(part))])
            let faults = answer["error"]?.elements ?? []
            for fault in faults {
                let user = fault["index"]?.int.flatMap { part.indices.contains(Int($0)) ? part[Int($0)] : nil }
                let name = user?["email"]?.string ?? user?["localId"]?.string ?? "?"
                StandardStream.error.line(UserText.plain("\(name): \(fault["message"]?.string ?? "refused")"))
            }
            taken += part.count - faults.count
            refused += faults.count
        }
        let rest = refused > 0 ? ", \(refused) refused" : ""
        StandardStream.output.line("\(taken) \(taken == 1 ? "account" : "accounts") imported\(rest)")
        if refused > 0 { throw ExitCode(1) }
    }

    private func key(_ path: String) -> String {
        switch WholeFile.read(path) {
        case .failure(let fault): fail("--signer-key-file: \(path): \(fault)")
        case .success(let bytes): return String(decoding: bytes.prefix { $0 > 0x20 }, as: UTF8.self)
        }
    }

    private func read() -> [JSONValue] {
        switch WholeFile.read(file) {
        case .failure(let fault): fail("\(file): \(fault)")
        case .success(let bytes):
            guard let users = (try? JSONValue(bytes))?["users"]?.elements, !users.isEmpty else {
                fail("\(file) is not a Firebase export of accounts: {\"users\":[…]}")
            }
            let members = dropSecondFactors ? Self.members.filter { $0 != "mfaInfo" } : Self.members
            return users.map { user in
                let renamed = Self.renamed.compactMap { other, name in user[other].map { JSONValue.Member(name, $0) } }
                return .object(members.compactMap { name in user[name].map { JSONValue.Member(name, $0) } } + renamed)
            }
        }
    }
}
