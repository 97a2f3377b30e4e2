import JSONTree
import Tokens

extension AccountService {
    /// `projects/{p}/accounts`: creates an account for an administrator, without a session (accounts contract §10). Beyond the contract it accepts
    /// an `alias`.
    func createAccount(_ call: AccountCall) async throws -> AccountAnswer {
        let wanted = try call.text("localId")
        if let wanted { try Account.requireID(wanted) }
        let profile = try AccountUpdate(call)
        var account = Account(id: wanted ?? RandomName.accountID(), createdAt: now())
        account.fill(profile)
        account.alias = try call.alias()
        try AdministrativeUpdate(call, settings).apply(to: &account)
        if let password = profile.password {
            try requireStrength(password)
            // Check first, so that an invalid account costs no password hash.
            let made = account
            try store.read { try $0.requireFree(made, isNew: true) }
            account.passwordHash = try await passwords.hash(password)
            account.passwordUpdatedAt = now()
        }
        let made = account
        try commit(call) { write in
            try write.transaction.requireFree(made, isNew: true)
            try write.transaction.save(made)
            try write.audit(.signUp, made.id, AuditEvent.byAdministrator)
        }
        var members: [JSONValue.Member] = [.init("localId", .string(made.id))]
        members.add("email", made.email)
        members.add("displayName", made.displayName)
        return AccountAnswer(kind: "SignupNewUserResponse", members)
    }

}

extension AccountTransaction {
    /// Checks that id, address, alias, phone number and identities belong to no other account.
    /// - Throws: DUPLICATE_LOCAL_ID, EMAIL_EXISTS, ALIAS_EXISTS, PHONE_NUMBER_EXISTS, FEDERATED_USER_ID_ALREADY_LINKED.
    func requireFree(_ account: Account, isNew: Bool) throws {
        func belongsToAnother(_ key: AccountKey) throws -> Bool { try self.account(key).map { $0.id != account.id } ?? false }
        if isNew, try self.account(.id(account.id)) != nil { throw AccountError("DUPLICATE_LOCAL_ID") }
        if let email = account.email, try belongsToAnother(.email(email)) { throw AccountError("EMAIL_EXISTS") }
        if let alias = account.alias, try belongsToAnother(.alias(alias)) { throw AccountError("ALIAS_EXISTS") }
        if let number = account.phoneNumber, try belongsToAnother(.phoneNumber(number)) { throw AccountError("PHONE_NUMBER_EXISTS") }
        for provider in account.providers where try belongsToAnother(.provider(provider.id, rawID: provider.rawID)) {
            throw AccountError("FEDERATED_USER_ID_ALREADY_LINKED")
        }
    }
}

extension Account {
    /// - Throws: INVALID_LOCAL_ID if no token could name it.
    static func requireID(_ id: String) throws(AccountError) {
        guard TokenExpectations.isSubject(id) else { throw AccountError("INVALID_LOCAL_ID", "It has 1 to 128 characters") }
        guard isName(id) else { throw AccountError("INVALID_LOCAL_ID", "It has no control characters") }
    }

    /// The initial fields of a new account.
    mutating func fill(_ profile: AccountUpdate) {
        displayName = profile.displayName ?? nil
        photoURL = profile.photoURL ?? nil
        email = profile.email?.text
    }
}

extension AccountService {
    /// `projects/{p}/accounts:update`: changes any field of any account (accounts contract §10).
    func updateAccount(_ call: AccountCall) async throws -> AccountAnswer {
        guard let uid = try call.filled("localId") else { throw AccountError("MISSING_LOCAL_ID") }
        var update = try AccountUpdate(call)
        let more = try AdministrativeUpdate(call, settings)
        if let password = update.password {
            try requireStrength(password)
            guard try store.read({ try $0.account(.id(uid)) }) != nil else { throw AccountError("USER_NOT_FOUND") }
            update.passwordHash = try await passwords.hash(password)
        }
        let wanted = update
        let account = try commit(call) { write in
            guard let former = try write.transaction.account(.id(uid)) else { throw AccountError("USER_NOT_FOUND") }
            var account = try write.apply(wanted, to: former)
            more.apply(to: &account)
            try write.transaction.requireFree(account, isNew: false)
            if wanted.revokes || account.email != former.email || account.passwordHash != former.passwordHash {
                try write.revoke(&account)
            }
            try write.recordChanges(of: account, since: former)
            try write.transaction.save(account)
            return account
        }
        if wanted.passwordHash != nil { liftThrottle(of: uid) }
        return AccountAnswer(kind: "SetAccountInfoResponse", Self.updated(account))
    }

}

extension AccountWrite {
    /// Records and announces the changes that only administrators make.
    fileprivate func recordChanges(of account: Account, since former: Account) throws {
        let byAdministrator = AuditEvent.byAdministrator
        func record(_ event: AuditEvent) throws { try audit(event, account.id, byAdministrator) }
        for provider in account.providers where !former.providers.contains(where: { $0.id == provider.id && $0.rawID == provider.rawID }) {
            try audit(.providerLinked, account.id, "\(provider.id), \(byAdministrator)")
        }
        if account.isEmailVerified, !former.isEmailVerified { try record(.addressVerified) }
        if account.customClaims != former.customClaims { try record(.claimsChanged) }
        try announceClaims(of: account, since: former)
        if account.isDisabled != former.isDisabled { try record(account.isDisabled ? .disabled : .enabled) }
        if account.isDisabled, !former.isDisabled { try announce(account.id, .disabled) }
    }
}

extension AccountService {
    /// `projects/{p}/accounts:delete` (accounts contract §10). A repeated request waits for the data removal of the first.
    func deleteAccount(_ call: AccountCall) async throws -> AccountAnswer {
        guard let uid = try call.filled("localId") else { throw AccountError("MISSING_LOCAL_ID") }
        let wasThere = try commit(call) { try $0.delete(uid) }
        guard wasThere || removesData && hasPendingRemoval(of: uid) else { throw AccountError("USER_NOT_FOUND") }
        return await answer(AccountAnswer(kind: "DeleteAccountResponse", []), behindRemovalOf: [uid])
    }

    /// `projects/{p}/accounts:batchDelete`: deletes many accounts; enabled ones only with `force`. Missing accounts are ignored.
    func deleteAccounts(_ call: AccountCall) async throws -> AccountAnswer {
        let ids = try call.texts("localIds")
        guard 1...settings.changedAtOnce ~= ids.count else {
            throw AccountError("LOCAL_ID_LIST_EXCEEDS_LIMIT", "1 to \(settings.changedAtOnce) accounts are deleted at once")
        }
        let isForced = try call.flag("force") ?? false
        let kept = try commit(call) { write in
            var kept: [JSONValue] = []
            for (index, id) in ids.enumerated() {
                if !isForced, let account = try write.transaction.account(.id(id)), !account.isDisabled {
                    kept.append([
                        "index": .int(Int64(index)), "localId": .string(id),
                        "message": "NOT_DISABLED : Disable the account before it is deleted, or say force",
                    ])
                } else {
                    try write.delete(id)
                }
            }
            return kept
        }
        var members: [JSONValue.Member] = []
        members.add("errors", kept.isEmpty ? nil : .array(kept))
        return await answer(AccountAnswer(members), behindRemovalOf: ids)
    }
}

/// The fields that only an administrator sets, in addition to those of users (accounts contract §10). Parsed and validated, not applied yet.
/// Nil leaves a field unchanged.
struct AdministrativeUpdate: Sendable {
    private var isEmailVerified: Bool?
    private var isDisabled: Bool?
    /// `.some(nil)` clears it; likewise the next.
    private var phoneNumber: String??
    private var customClaims: String??
    /// ms since the epoch.
    private var createdAt: Int64?
    private var lastLoginAt: Int64?
    private var linked: [LinkedProvider] = []

    /// - Throws: INVALID_PHONE_NUMBER, INVALID_CLAIMS, CLAIMS_TOO_LARGE, FORBIDDEN_CLAIM, MISSING_PROVIDER_ID, MISSING_RAW_ID,
    ///   INVALID_PROVIDER_ID.
    init(_ call: AccountCall, _ settings: AccountSettings) throws(AccountError) {
        isEmailVerified = try call.flag("emailVerified")
        // Creating and importing use `disabled`, updating uses `disableUser`.
        isDisabled = try call.flag("disableUser")
        if isDisabled == nil { isDisabled = try call.flag("disabled") }
        phoneNumber = try call.change("phoneNumber", length: 32)
        if case .some(.some(let number)) = phoneNumber, !Self.isPhoneNumber(number) {
            throw AccountError("INVALID_PHONE_NUMBER", "It is a + with 1 to 15 digits")
        }
        if call.body["customAttributes"] != nil {
            // `{}` is stored unchanged: the admin SDKs show it as no claims, but a missing value as claims that were never set.
            let text = try call.filled("customAttributes")
            if let text { _ = try CustomClaims(json: text, length: settings.claimsLength) }
            customClaims = .some(text)
        }
        createdAt = try call.time("createdAt")
        lastLoginAt = try call.time("lastLoginAt")
        for entry in try call.objects("linkProviderUserInfo") + call.objects("providerUserInfo") { try link(entry) }
    }

    /// Entries derived from an address, a password or a phone number are not linked services.
    private static let derived: Set<String> = ["password", "phone", "emailLink"]

    private mutating func link(_ entry: AccountCall) throws(AccountError) {
        guard let id = try entry.filled("providerId") else { throw AccountError("MISSING_PROVIDER_ID") }
        guard !Self.derived.contains(id) else { return }
        var subject = try entry.filled("rawId")
        if subject == nil { subject = try entry.filled("federatedId") }
        guard let rawID = subject else { throw AccountError("MISSING_RAW_ID") }
        guard Account.isName(id), Account.isName(rawID) else {
            throw AccountError("INVALID_PROVIDER_ID", "providerId and rawId have no control characters")
        }
        var provider = LinkedProvider(id: id, rawID: rawID)
        provider.email = try entry.filled("email").map(EmailAddress.lowercased)
        provider.displayName = try entry.filled("displayName")
        provider.photoURL = try entry.filled("photoUrl")
        provider.screenName = try entry.filled("screenName")
        linked.removeAll { $0.id == id }
        linked.append(provider)
    }

    func apply(to account: inout Account) {
        if let isEmailVerified { account.isEmailVerified = isEmailVerified }
        if let isDisabled { account.isDisabled = isDisabled }
        if let phoneNumber { account.phoneNumber = phoneNumber }
        if let customClaims { account.customClaims = customClaims }
        if let createdAt { account.createdAt = createdAt }
        if let lastLoginAt { account.lastLoginAt = lastLoginAt }
        for provider in linked {
            // At most one per service: replaces another identity at the same service.
            account.providers.removeAll { $0.id == provider.id }
            account.providers.append(provider)
        }
    }

    /// E.164.
    private static func isPhoneNumber(_ text: String) -> Bool {
        let digits = text.utf8.dropFirst()
        return text.utf8.first == UInt8(ascii: "+") && 1...15 ~= digits.count && digits.allSatisfy { 0x30...0x39 ~= $0 }
    }
}

extension AccountCall {
    /// The same call, for an object within its body.
    func about(_ body: JSONValue) -> AccountCall { AccountCall(body: body, caller: caller, peer: peer, project: project, request: request) }

    /// A list of objects, or a single object; empty if absent.
    func objects(_ name: String) throws(AccountError) -> [AccountCall] {
        switch body[name] {
        case nil, .null: return []
        case .object(let members): return [about(.object(members))]
        case .array(let elements):
            var objects: [AccountCall] = []
            for element in elements {
                guard element.members != nil else { throw .invalid(name, "a list of objects is expected") }
                objects.append(about(element))
            }
            return objects
        default: throw .invalid(name, "a list of objects is expected")
        }
    }

    /// A time in ms since the epoch, as a number or as digits; nil if absent.
    func time(_ name: String) throws(AccountError) -> Int64? {
        guard let value = body[name], !value.isNull else { return nil }
        guard let time = value.int, time >= 0 else { throw .invalid(name, "milliseconds since the epoch are expected") }
        return time
    }
}
