import JSONTree
import Mail
import Tokens

extension AccountService {
    /// `accounts:sendOobCode`: mails a code (accounts contract §6.6). An administrator may get it in the response instead.
    func sendCode(_ call: AccountCall) async throws -> AccountAnswer {
        guard call.has("requestType"), let value = call.body["requestType"] else { throw AccountError("MISSING_REQ_TYPE") }
        guard let kind = CodeKind(value), kind != .recoverEmail else {
            throw AccountError.invalid("requestType", "it is none of the types that are mailed on request")
        }
        let wantsLink = try call.flag("returnOobLink") ?? false
        guard !wantsLink || call.caller.isAdministrator else { throw AccountError("INSUFFICIENT_PERMISSION") }
        let continueURL = try continueURL(try call.filled("continueUrl"))
        guard kind != .signIn || settings.allowsEmailLink else { throw AccountError("OPERATION_NOT_ALLOWED") }

        let order: (code: KnownCode?, shown: String) = switch kind {
        case .resetPassword, .signIn: try mailToAddress(kind, continueURL, wantsLink: wantsLink, call)
        default: try mailToUser(kind, continueURL, wantsLink: wantsLink, call)
        }
        var members: [JSONValue.Member] = [.init("email", .string(order.shown))]
        if wantsLink, let code = order.code {
            members.add("oobCode", code.secret)
            members.add("oobLink", code.link)
        }
        return AccountAnswer(kind: "GetOobConfirmationCodeResponse", members)
    }

    /// PASSWORD_RESET and EMAIL_SIGNIN: for the reader of the address.
    private func mailToAddress(
        _ kind: CodeKind, _ continueURL: ContinueURL?, wantsLink: Bool, _ call: AccountCall
    ) throws -> (code: KnownCode?, shown: String) {
        guard let text = try call.filled("email") else { throw AccountError("MISSING_EMAIL") }
        guard let email = EmailAddress(text) else { throw AccountError("INVALID_EMAIL") }
        if !wantsLink {
            _ = try mail.address(email.text)
            try admitMail(to: email.text, from: call.peer)
        }
        let code = try commit(call) { write -> KnownCode? in
            let account = try write.transaction.account(.email(email.text))
            if account == nil, kind == .resetPassword {
                guard hidesAccounts, !wantsLink else { throw AccountError("EMAIL_NOT_FOUND") }
                return try write.noCode(kind)
            }
            let code = try write.makeCode(kind, account: account, email: email.text, continueURL: continueURL)
            if !wantsLink { write.mail(code, to: email.text, account) }
            return code
        }
        if wantsLink, let code { knownCodes.add([code]) }
        return (code, email.text)
    }

    /// VERIFY_EMAIL and VERIFY_AND_CHANGE_EMAIL: for the user of an ID token, or for an administrator's link by address.
    private func mailToUser(
        _ kind: CodeKind, _ continueURL: ContinueURL?, wantsLink: Bool, _ call: AccountCall
    ) throws -> (code: KnownCode?, shown: String) {
        let token = wantsLink && !call.has("idToken") ? nil : try idToken(call)
        var newEmail: EmailAddress?
        if kind == .verifyAndChangeEmail {
            guard let text = try call.filled("newEmail") else { throw AccountError("MISSING_NEW_EMAIL") }
            guard let address = EmailAddress(text) else { throw AccountError("INVALID_EMAIL") }
            newEmail = address
        }
        let known = try store.read { try addressee(token, kind, call, in: $0) }
        if !wantsLink {
            let address = try mail.address(newEmail?.text ?? known.email ?? "")
            try admitMail(to: address.text, from: call.peer)
        }
        let code = try commit(call) { write -> KnownCode? in
            let account = try addressee(token, kind, call, in: write.transaction)
            if let newEmail, let holder = try write.transaction.account(.email(newEmail.text)), holder.id != account.id {
                guard hidesAccounts, !wantsLink else { throw AccountError("EMAIL_EXISTS") }
                return try write.noCode(kind)
            }
            let code = try write.makeCode(
                kind, account: account, email: account.email ?? "", newEmail: newEmail?.text, continueURL: continueURL)
            if !wantsLink { write.mail(code, to: newEmail?.text ?? account.email ?? "", account) }
            return code
        }
        if wantsLink, let code { knownCodes.add([code]) }
        return (code, known.email ?? newEmail?.text ?? "")
    }

    /// - Throws: MISSING_EMAIL if the account has no address to verify.
    private func addressee(
        _ token: VerifiedToken?, _ kind: CodeKind, _ call: AccountCall, in transaction: AccountTransaction
    ) throws -> Account {
        let account: Account
        if let token {
            let user = try transaction.user(of: token)
            if kind == .verifyAndChangeEmail { try user.requireRecentSignIn(settings, now: now()) }
            account = user.account
        } else {
            guard let text = try call.filled("email") else { throw AccountError("MISSING_EMAIL") }
            guard let email = EmailAddress(text), let found = try transaction.account(.email(email.text)) else {
                throw AccountError("USER_NOT_FOUND")
            }
            account = found
        }
        guard kind != .verifyEmail || account.email != nil else { throw AccountError("MISSING_EMAIL") }
        return account
    }
}

extension AccountWrite {
    /// Mails nothing, but responds as if it did. Writes an audit event instead of the code, which takes the same time.
    fileprivate func noCode(_ kind: CodeKind) throws -> KnownCode? {
        try audit(.codeMailed, nil, "\(kind.rawValue), no such account")
        return nil
    }
}

/// The redirect target of a mailed link: an absolute `http` or `https` URL with an allowed host. Otherwise our page would be an open redirect
/// (accounts contract §6.6).
struct ContinueURL: Sendable, Equatable {
    let text: String
    /// In lower case, without port.
    let host: String

    /// Nil unless it is absolute and unambiguous for browsers and the hub. It contains no user name, no backslash, no space or control
    /// character, and only ASCII.
    init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 2048, bytes.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !#"\"<>^`{|}"#.utf8.contains($0) }) else { return nil }
        let lower = text.lowercased()
        guard let scheme = ["https://", "http://"].first(where: lower.hasPrefix) else { return nil }
        let authority = lower.dropFirst(scheme.count).prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let host = Self.host(authority) else { return nil }
        self.text = text
        self.host = host
    }

    private static func host(_ authority: Substring) -> String? {
        let (host, rest): (Substring, Substring)
        if authority.first == "[" {
            guard let end = authority.firstIndex(of: "]") else { return nil }
            (host, rest) = (authority[...end], authority[authority.index(after: end)...])
            guard host.dropFirst().dropLast().utf8.allSatisfy({ $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") || isHex($0) }) else {
                return nil
            }
        } else {
            host = authority.prefix { $0 != ":" }
            rest = authority[host.endIndex...]
            guard !host.isEmpty, host.utf8.allSatisfy(isNameByte) else { return nil }
        }
        guard rest.isEmpty || (rest.first == ":" && rest.dropFirst().utf8.allSatisfy { 0x30...0x39 ~= $0 }) else { return nil }
        return String(host)
    }

    private static func isHex(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte || 0x61...0x66 ~= byte }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        0x30...0x39 ~= byte || 0x61...0x7A ~= byte || byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".") || byte == UInt8(ascii: "_")
    }
}

extension AccountService {
    /// - Throws: INVALID_CONTINUE_URI if it is not an absolute URL, UNAUTHORIZED_DOMAIN if its host is not allowed.
    func continueURL(_ text: String?) throws(AccountError) -> ContinueURL? {
        guard let text else { return nil }
        guard let url = ContinueURL(text) else { throw AccountError("INVALID_CONTINUE_URI", "An absolute http or https URL is expected.") }
        guard settings.linkHosts.contains(where: { $0.lowercased() == url.host }) else {
            throw AccountError("UNAUTHORIZED_DOMAIN", "This host is not one of those that links may go on to.")
        }
        return url
    }
}
