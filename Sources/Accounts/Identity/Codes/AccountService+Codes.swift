import Mail

extension AccountService {
    /// ms that a new code of a kind lives.
    private func lifetime(_ kind: CodeKind) -> Int64 {
        let seconds = switch kind {
        case .resetPassword: settings.resetCodeSeconds
        case .signIn: settings.signInCodeSeconds
        case .verifyEmail, .verifyAndChangeEmail: settings.verifyCodeSeconds
        case .recoverEmail: settings.recoverCodeSeconds
        }
        return Int64(seconds) * 1000
    }

    /// Makes a code and the link to it.
    /// - Parameters:
    ///   - account: whose it is, if anybody's yet.
    ///   - email: see `MailedCode.email`.
    func makeCode(
        _ kind: CodeKind, account: Account?, email: String, newEmail: String? = nil, continueURL: ContinueURL? = nil, _ call: AccountCall,
        in transaction: AccountTransaction
    ) throws -> KnownCode {
        let code = MailedCode(kind: kind, uid: account?.id, email: email, newEmail: newEmail, expiresAt: now() + lifetime(kind))
        let secret = RandomName.secret()
        try transaction.add(code, hash: SecretHash.of(secret), at: now())
        try transaction.audit(.codeMailed, account?.id, peer: call.peer, at: now(), kind.rawValue)
        return KnownCode(code: code, secret: secret, link: link(kind, secret, continueURL, call))
    }

    /// The public address of the hub, never the request's Host: whoever sends that would choose where the code goes.
    private func link(_ kind: CodeKind, _ secret: String, _ continueURL: ContinueURL?, _ call: AccountCall) -> String {
        var link = publicURL + "/.account/action?mode=\(kind.mode)"
        link += "&oobCode=\(secret)&apiKey=\(QueryText.encode(call.keyForLinks))&lang=\(call.language.rawValue)"
        if let continueURL { link += "&continueUrl=\(QueryText.encode(continueURL.text))" }
        return link
    }

    // MARK: Using one

    /// A pending code. Nothing is used up.
    /// - Throws: INVALID_OOB_CODE for one that never was, is used or is void, EXPIRED_OOB_CODE.
    func pendingCode(_ secret: String, in transaction: AccountTransaction) throws -> MailedCode {
        guard let code = try transaction.code(hash: SecretHash.of(secret)) else { throw AccountError("INVALID_OOB_CODE") }
        guard now() < code.expiresAt else { throw AccountError("EXPIRED_OOB_CODE") }
        return code
    }

    /// The account that a code is bound to, still under the address that it was mailed for.
    func account(of code: MailedCode, in transaction: AccountTransaction) throws -> Account {
        guard let uid = code.uid, let account = try transaction.account(.id(uid)), code.kind == .recoverEmail || (account.email ?? "") == code.email else {
            throw AccountError("INVALID_OOB_CODE")
        }
        guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
        return account
    }

    /// A code is used up; in the transaction that does what it is for.
    func use(_ secret: String, in transaction: AccountTransaction, _ aftermath: inout Aftermath) throws {
        let hash = SecretHash.of(secret)
        try transaction.removeCode(hash: hash)
        aftermath.usedCodes.append(secret)
    }

    /// Looks at a code without using it (accounts contract §6.7).
    func peek(_ secret: String, _ call: AccountCall) throws -> MailedCode {
        try admitCode(from: call.peer)
        return try store.read { transaction in
            let code = try pendingCode(secret, in: transaction)
            if code.kind != .signIn { _ = try account(of: code, in: transaction) }
            return code
        }
    }

    /// Does what a code is for: VERIFY_EMAIL, VERIFY_AND_CHANGE_EMAIL, RECOVER_EMAIL (accounts contract §8).
    /// - Returns: the account as it is now.
    func apply(code secret: String, _ call: AccountCall) throws -> (account: Account, code: MailedCode) {
        try admitCode(from: call.peer)
        return try commit { transaction, aftermath in
            let code = try pendingCode(secret, in: transaction)
            guard [.verifyEmail, .verifyAndChangeEmail, .recoverEmail].contains(code.kind) else { throw AccountError("INVALID_OOB_CODE") }
            var account = try self.account(of: code, in: transaction)
            if code.kind == .verifyEmail {
                account.isEmailVerified = true
                try transaction.audit(.addressVerified, account.id, peer: call.peer, at: now())
            } else {
                guard let address = EmailAddress(code.newEmail ?? code.email) else { throw AccountError("INVALID_OOB_CODE") }
                if let holder = try transaction.account(.email(address.text)), holder.id != account.id { throw AccountError("EMAIL_EXISTS") }
                if code.kind == .recoverEmail {
                    try recover(&account, to: address, by: secret, call, in: transaction, &aftermath)
                } else {
                    try changeAddress(of: &account, to: address, isVerified: true, call, in: transaction, &aftermath)
                }
                try revoke(&account, call, in: transaction, &aftermath)
            }
            try transaction.save(account)
            try use(secret, in: transaction, &aftermath)
            return (account, code)
        }
    }
}

/// Text for a query's value (RFC 3986 §2.3: all but the unreserved characters encoded).
enum QueryText {
    private static let digits = Array("0123456789ABCDEF".utf8)

    static func encode(_ text: String) -> String {
        var out: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"): out.append(byte)
            default: out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}
