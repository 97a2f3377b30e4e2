import JSONTree

extension AccountService {
    /// `projects/{p}/accounts:batchCreate`: imports accounts with their password hashes. Each invalid account is reported with an error; the
    /// others are imported in one transaction (accounts contract §10).
    /// - Throws: DUPLICATE_LOCAL_ID for a list that names an account twice; with `sanityCheck` also DUPLICATE_EMAIL and DUPLICATE_RAW_ID.
    func importAccounts(_ call: AccountCall) async throws -> AccountAnswer {
        let users = try call.objects("users")
        guard !users.isEmpty else { throw AccountError("MISSING_USER_ACCOUNT") }
        guard users.count <= settings.changedAtOnce else {
            throw AccountError.invalid("users", "at most \(settings.changedAtOnce) accounts are imported at once")
        }
        let scheme = users.contains { $0.has("passwordHash") } ? try ImportedPasswords(call) : nil
        let overwrites = try call.flag("allowOverwrite") ?? false
        try Self.requireDistinct(users, overwrites: overwrites, isStrict: try call.flag("sanityCheck") ?? false)

        var accounts: [(index: Int, account: Account)] = []
        var faults: [(index: Int, message: String)] = []
        for (index, user) in users.enumerated() {
            do throws(AccountError) { accounts.append((index, try await imported(user, scheme))) } catch {
                faults.append((index, error.importMessage))
            }
        }
        let read = accounts
        faults += try commit(call) { write in
            var faults: [(index: Int, message: String)] = []
            for (index, account) in read {
                do { try write.store(account, overwrites: overwrites) } catch let error as AccountError {
                    faults.append((index, error.importMessage))
                }
            }
            return faults
        }
        faults.sort { $0.index < $1.index }
        var members: [JSONValue.Member] = []
        members.add("error", faults.isEmpty ? nil : .array(faults.map { ["index": .int(Int64($0.index)), "message": .string($0.message)] }))
        return AccountAnswer(kind: "UploadAccountResponse", members)
    }

    /// Refuses a contradictory list as a whole, as it is unclear which of its accounts is meant.
    private static func requireDistinct(_ users: [AccountCall], overwrites: Bool, isStrict: Bool) throws(AccountError) {
        var (ids, emails, identities): (Set<String>, Set<String>, Set<[String]>) = ([], [], [])
        for user in users {
            if !overwrites, let id = user.body["localId"]?.string, !id.isEmpty, !ids.insert(id).inserted {
                throw AccountError("DUPLICATE_LOCAL_ID", String(id.prefix(128)))
            }
            guard isStrict else { continue }
            if let email = user.body["email"]?.string.map(EmailAddress.lowercased), !email.isEmpty, !emails.insert(email).inserted {
                throw AccountError("DUPLICATE_EMAIL", String(email.prefix(256)))
            }
            for identity in try user.objects("providerUserInfo") {
                guard let provider = identity.body["providerId"]?.string, let subject = identity.body["rawId"]?.string else { continue }
                if !identities.insert([provider, subject]).inserted {
                    throw AccountError("DUPLICATE_RAW_ID", "Provider id(\(provider.prefix(64))), Raw id(\(subject.prefix(128)))")
                }
            }
        }
    }

    private func imported(_ user: AccountCall, _ scheme: ImportedPasswords?) async throws(AccountError) -> Account {
        guard let id = try user.filled("localId") else { throw AccountError("MISSING_LOCAL_ID") }
        try Account.requireID(id)
        var account = Account(id: id, createdAt: now())
        account.fill(try AccountUpdate(user))
        try AdministrativeUpdate(user, settings).apply(to: &account)
        account.validSince = now() / 1000
        if let password = try user.filled("rawPassword") {
            try requireStrength(password)
            account.passwordHash = try await passwords.hash(password)
        } else if user.has("passwordHash"), let scheme {
            account.passwordHash = try scheme.hash(of: user).text
        }
        if account.passwordHash != nil { account.passwordUpdatedAt = now() }
        return account
    }

}

extension AccountError {
    /// The import error of a refused account: the vendor's sentences, which programs show unchanged.
    fileprivate var importMessage: String {
        switch code {
        case "MISSING_LOCAL_ID": "localId is missing"
        case "DUPLICATE_LOCAL_ID": "localId belongs to an existing account - can not overwrite."
        case "INVALID_EMAIL": "email is invalid"
        case "EMAIL_EXISTS": "email exists in other account in database"
        case "INVALID_PHONE_NUMBER": "phone number format is invalid"
        case "INVALID_CLAIMS": "Invalid custom claims provided."
        case "CLAIMS_TOO_LARGE": "Custom claims provided are too large."
        case "FORBIDDEN_CLAIM": "Custom claims provided include a reserved claim."
        case "MISSING_PROVIDER_ID", "MISSING_RAW_ID": "federatedId or (providerId & rawId) is required"
        case "FEDERATED_USER_ID_ALREADY_LINKED": "raw id exists in other account in database"
        default: message
        }
    }
}

extension AccountWrite {
    fileprivate func store(_ account: Account, overwrites: Bool) throws {
        var account = account
        let former = try transaction.account(.id(account.id))
        guard former == nil || overwrites else {
            throw AccountError("DUPLICATE_LOCAL_ID")
        }
        try transaction.requireFree(account, isNew: false)
        if former != nil { try revoke(&account) }
        try transaction.save(account)
        try audit(.signUp, account.id, "imported \(AuditEvent.byAdministrator)")
    }
}

/// The algorithm of the password hashes in an import (accounts contract §10). Only slow schemes are accepted, as fast hashes can be reversed by
/// guessing. Each is replaced by our own scheme at the user's first sign-in.
struct ImportedPasswords {
    private enum Scheme {
        case scrypt(ScryptParameters)
        case firebaseScrypt(ScryptParameters, separator: [UInt8], signerKey: [UInt8])
        case pbkdf2(PasswordHash.Digest, rounds: Int)
    }

    private let scheme: Scheme

    /// - Throws: `INVALID_HASH_ALGORITHM : reason`.
    init(_ call: AccountCall) throws(AccountError) {
        let name = try call.filled("hashAlgorithm") ?? ""
        switch name {
        case "STANDARD_SCRYPT":
            let cost = call.number("cpuMemCost")
            guard cost > 1, cost & (cost - 1) == 0 else { throw Self.refused(name, "cpuMemCost is a power of two") }
            let (r, p) = (call.number("blockSize"), call.number("parallelization"))
            scheme = .scrypt(try Self.parameters(name, ln: cost.trailingZeroBitCount, r: r, p: p))
        case "SCRYPT":
            guard let key = try call.binary("signerKey"), !key.isEmpty else { throw Self.refused(name, "signerKey is missing") }
            let parameters = try Self.parameters(name, ln: call.number("memoryCost"), r: call.number("rounds"), p: 1)
            scheme = .firebaseScrypt(parameters, separator: try call.binary("saltSeparator") ?? [], signerKey: key)
        case "PBKDF2_SHA256", "PBKDF_SHA1":
            let rounds = call.number("rounds")
            guard 1...PasswordHash.mostRounds ~= rounds else { throw Self.refused(name, "rounds are from 1 to \(PasswordHash.mostRounds)") }
            scheme = .pbkdf2(name == "PBKDF_SHA1" ? .sha1 : .sha256, rounds: rounds)
        default:
            throw Self.refused(
                name, "taken are SCRYPT, STANDARD_SCRYPT, PBKDF2_SHA256 and PBKDF_SHA1; other users import without password and reset it")
        }
    }

    /// The hash of one user, in its stored form.
    func hash(of user: AccountCall) throws(AccountError) -> PasswordHash {
        let salt = try user.binary("salt") ?? []
        guard let hash = try user.binary("passwordHash") else { throw AccountError("INVALID_PASSWORD_HASH") }
        let made: PasswordHash = switch scheme {
        case .scrypt(let parameters): .scrypt(parameters, keyID: nil, salt: salt, hash: hash)
        case .firebaseScrypt(let parameters, let separator, let key):
            .firebaseScrypt(parameters, salt: salt, separator: separator, signerKey: key, hash: hash)
        case .pbkdf2(let digest, let rounds): .pbkdf2(digest: digest, rounds: rounds, salt: salt, hash: hash)
        }
        // A hash that cannot be parsed would never match a password.
        guard PasswordHash(made.text) == made else {
            throw AccountError("INVALID_PASSWORD_HASH", "Its length or its salt's does not fit the hashAlgorithm")
        }
        return made
    }

    private static func parameters(_ name: String, ln: Int, r: Int, p: Int) throws(AccountError) -> ScryptParameters {
        guard let parameters = ScryptParameters(ln: ln, r: r, p: p) else {
            throw refused(name, "its parameters ask for too little or too much work")
        }
        return parameters
    }

    private static func refused(_ name: String, _ why: String) -> AccountError {
        AccountError("INVALID_HASH_ALGORITHM", "hashAlgorithm \"\(name.prefix(32))\", \(why)")
    }
}

extension AccountCall {
    /// 0 if absent or not a number.
    fileprivate func number(_ name: String) -> Int { body[name]?.int.flatMap { Int(exactly: $0) } ?? 0 }

    /// Base64 in either alphabet, with or without padding; nil if absent.
    fileprivate func binary(_ name: String) throws(AccountError) -> [UInt8]? {
        guard let text = try text(name) else { return nil }
        let plain = text.filter { $0 != "=" }
        guard let bytes = Base64.decode(plain) ?? Base64.decodeURL(plain) else { throw .invalid(name, "base64 is expected") }
        return bytes
    }
}
