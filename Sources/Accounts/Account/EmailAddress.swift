import Foundation

/// A mail address as the key of an account: in lower case, loosely checked (accounts contract §4).
struct EmailAddress: Sendable, Equatable {
    let text: String

    static let maxBytes = 255

    /// Nil unless it has exactly one `@` with text on both sides, an ASCII domain, and fewer than 256 bytes. Look-alikes are refused: no space,
    /// control or invisible format character, and only Unicode's composed form (NFC).
    init?(_ text: String) {
        let lower = Self.lowercased(text)
        let sides = lower.utf8.split(separator: UInt8(ascii: "@"), omittingEmptySubsequences: false)
        guard sides.count == 2, sides.allSatisfy({ !$0.isEmpty }), sides[1].allSatisfy({ $0 < 0x80 }), lower.utf8.count <= Self.maxBytes,
            lower.unicodeScalars.allSatisfy(Self.isVisible), lower.utf8.elementsEqual(lower.precomposedStringWithCanonicalMapping.utf8)
        else { return nil }
        self.text = lower
    }

    /// Lowers only A to Z. Other characters whose lower case is an ASCII letter, such as the Kelvin sign, make other addresses.
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

/// Changes of an account's address. When an account loses a verified address, a recovery link is mailed to it; an unverified address gets
/// none.
///
///     verified address lost, to another or to none ─────► a recovery link is mailed to it
///     recovery link used ───────────────────────────────► later changes are undone: address, password, linked services, sessions, links
///     unverified address verified by its owner ─────────► reclaimed: all earlier credentials and recovery links are removed
///
/// A thief who added an unverified address to a stolen account could reclaim it, which would remove the owner's recovery link. So, with
/// accounts hidden, no account has an unverified address while a recovery link is pending.
extension AccountWrite {
    /// Changes an account's address; the same address is no change. Codes mailed for the former address become void. The caller checks that the
    /// address is not another account's, and revokes tokens.
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

    /// Removes an account's address, and with it signing in by address.
    func clearAddress(of account: inout Account) throws {
        let former = account
        account.email = nil
        account.isEmailVerified = false
        account.hasEmailLink = false
        guard former.email != nil else { return }
        try recordAddressLoss(former, &account)
    }

    /// Whether an account may have an unverified address.
    func mayTake(unproven email: EmailAddress, _ account: Account) throws -> Bool {
        guard hidesAccounts, call?.caller.isAdministrator != true else { return true }
        return try transaction.codes(of: account.id).allSatisfy {
            $0.kind != .recoverEmail || $0.email == email.text || $0.expiresAt <= now()
        }
    }

    /// Voids codes mailed to the former address, and mails it the recovery link if it was verified. Its reader may be the account's owner, and the
    /// change may be an intruder's (accounts contract §6.4). An unverified address may be a stranger's.
    private func recordAddressLoss(_ former: Account, _ account: inout Account) throws {
        try audit(.addressChanged, account.id)
        try transaction.removeCodes(of: account.id)
        guard let address = former.email else { return }
        if account.initialEmail == nil { account.initialEmail = address }
        // Test suites of the stock SDKs verify nothing and expect the mail.
        guard former.isEmailVerified || settings.isDev else { return }
        mail(try makeCode(.recoverEmail, account: account, email: address), to: address, account)
    }

    // MARK: Ownership

    /// Recovers the account for the reader of the address, and excludes every other user of it. A link to set a new password is mailed. The caller
    /// checks that the address is not another account's, and revokes tokens.
    /// - Parameter secret: the code. Recovery links mailed after it become void. Earlier ones stay, or a thief's link would void the owner's.
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

    /// A user proves ownership of the address of an account that never verified it, or that was another user's. The former user may be another
    /// person who waited for this. So all credentials and recovery links are removed: password, phone number, other services, sessions and codes
    /// (accounts contract §7.3). The alias stays: only administrators set it, and it is useless without the password.
    func reclaim(_ account: inout Account) throws {
        account.dropCredentials()
        account.initialEmail = nil
        try transaction.removeCodes(of: account.id)
        try transaction.removeCodes(of: account.id, .recoverEmail)
        try revoke(&account)
    }
}

extension Account {
    /// Removes every way to sign in except the address itself.
    fileprivate mutating func dropCredentials() {
        passwordHash = nil
        passwordUpdatedAt = nil
        phoneNumber = nil
        providers = []
    }
}
