import Foundation

/// A mail address as accounts are found by: in lower case, checked loosely (accounts contract §4).
struct EmailAddress: Sendable, Equatable {
    let text: String

    static let maxBytes = 255

    /// Nil unless there is exactly one `@` with something on both sides, the domain in ASCII, and fewer than 256 bytes. What looks like
    /// another address is none: no space, control or invisible format character, and only Unicode's composed form (NFC).
    init?(_ text: String) {
        let lower = Self.lowercased(text)
        let sides = lower.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard sides.count == 2, sides.allSatisfy({ !$0.isEmpty }), sides[1].allSatisfy({ $0 < 0x80 }), lower.utf8.count <= Self.maxBytes,
            lower.unicodeScalars.allSatisfy(Self.isVisible), lower.utf8.elementsEqual(lower.precomposedStringWithCanonicalMapping.utf8)
        else { return nil }
        self.text = lower
    }

    /// A to Z alone: other letters that have one of these in lower case, as the Kelvin sign has, are other addresses.
    static func lowercased(_ text: String) -> String {
        String(decoding: text.utf8.map { 0x41...0x5A ~= $0 ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    private static func isVisible(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .privateUse, .unassigned: false
        default: !scalar.properties.isWhitespace
        }
    }
}

/// Changes of an account's address. When an account loses a verified address, a recovery link is mailed to it; an unverified address
/// gets none.
///
///     proven address lost, to another or to none ──► a way back is mailed to it
///     way back opened ──────────────────────────────► what came later is undone: address, password, linked services, sessions, ways back
///     unproven address proven by its owner ─────────► reclaimed: every way in and every way back from before is gone
///
/// A thief who could write an unproven address into a stolen account would reclaim it, and the owner's way back with it. So, with accounts
/// hidden, no account has an unproven address while a way back is pending.
extension AccountWrite {
    /// Gives an account another address; the same one is no change. Codes that were mailed for the former one are void. The caller has
    /// asked whether the address is another account's, and revokes.
    /// - Throws: OPERATION_NOT_ALLOWED, see `mayTake`.
    func changeAddress(of account: inout Account, to email: EmailAddress, isVerified: Bool) throws {
        guard account.email != email.text else {
            account.isEmailVerified = isVerified
            return
        }
        guard try isVerified || mayTake(unproven: email, account) else { throw AccountError("OPERATION_NOT_ALLOWED") }
        let former = account
        account.email = email.text
        account.isEmailVerified = isVerified
        try recordAddressLoss(former, &account)
    }

    /// Takes an account's address away, and signing in by it.
    func clearAddress(of account: inout Account) throws {
        let former = account
        account.email = nil
        account.isEmailVerified = false
        account.hasEmailLink = false
        guard former.email != nil else { return }
        try recordAddressLoss(former, &account)
    }

    /// Whether an account may have an address that its user has not proven.
    func mayTake(unproven email: EmailAddress, _ account: Account) throws -> Bool {
        guard hidesAccounts, call?.caller.isAdministrator != true else { return true }
        return try transaction.codes(of: account.id).allSatisfy {
            $0.kind != .recoverEmail || $0.email == email.text || $0.expiresAt <= now()
        }
    }

    /// Voids codes mailed to the former address, and mails it the recovery link if it was proven: its reader may be the account's owner,
    /// and not who made the change (accounts contract §6.4). An unproven address may be a stranger's.
    private func recordAddressLoss(_ former: Account, _ account: inout Account) throws {
        try audit(.addressChanged, account.id)
        try transaction.removeCodes(of: account.id)
        guard let address = former.email else { return }
        if account.initialEmail == nil { account.initialEmail = address }
        // Test suites of the stock SDKs prove nothing and expect the mail.
        guard former.isEmailVerified || settings.isDev else { return }
        mail(try makeCode(.recoverEmail, account: account, email: address), to: address, account)
    }

    // MARK: Owners

    /// The way back: the reader of the address has the account again, and no other user of it. A link for a new password is mailed to
    /// it. The caller has asked whether the address is another account's, and revokes.
    /// - Parameter secret: the code. Ways back that were mailed after it are void; those from before stay, or a thief's would end the
    ///   owner's.
    func recover(_ account: inout Account, to email: EmailAddress, by secret: String) throws {
        account.email = email.text
        account.isEmailVerified = true
        account.dropCredentials()
        try audit(.addressChanged, account.id)
        try transaction.removeCodes(of: account.id)
        try transaction.removeCodes(of: account.id, .recoverEmail, since: SecretHash.of(secret))
        guard settings.allowsPasswords else { return }
        mail(try makeCode(.resetPassword, account: account, email: email.text), to: email.text, account)
    }

    /// A user proves to own the address of an account that never proved it, or that was another's: the account's former user may have been
    /// another person, waiting for this. Their ways in go, and their ways back: password, number, other services, sessions and codes
    /// (accounts contract §7.3). The alias stays: only administrators give one, and without the password it opens nothing.
    func reclaim(_ account: inout Account) throws {
        account.dropCredentials()
        account.initialEmail = nil
        try transaction.removeCodes(of: account.id)
        try transaction.removeCodes(of: account.id, .recoverEmail)
        try revoke(&account)
    }
}

extension Account {
    /// Ends every way to sign in but the address itself.
    fileprivate mutating func dropCredentials() {
        passwordHash = nil
        passwordUpdatedAt = nil
        phoneNumber = nil
        providers = []
    }
}
