import JSONTree
import Tokens

/// Signing in with another service's ID token: the request, the decision and the response.
extension AccountService {
    /// `accounts:signInWithIdp`: with the ID token of another service (accounts contract §7).
    func signInWithIdp(_ call: AccountCall) async throws -> AccountAnswer {
        let request = try IdpRequest(call)
        let (wantsCredential, creates) = (try call.flag("returnIdpCredential") ?? false, try call.flag("autoCreate") ?? true)
        let token = call.has("idToken") ? try idToken(call) : nil
        guard let idToken = request.idToken else {
            throw AccountError("INVALID_IDP_RESPONSE", "There is no id_token; an access token alone does not say whom it is meant for.")
        }
        let identity = try await federated.verify(provider: request.provider, idToken: idToken, nonce: request.nonce)
        guard Account.isName(identity.subject) else {
            throw AccountError("INVALID_IDP_RESPONSE", "The ID token is refused: its sub has control characters.")
        }
        var shown = Self.credential(identity, request)
        do {
            // Otherwise the identity is linked to an account, or an account is created.
            let isSignIn = try token == nil
                && store.read { try $0.account(.provider(identity.provider, rawID: identity.subject)) != nil }
            let result = try commit(call, isSignIn ? .withSystem : .onDisk) { write in
                try write.receive(identity, token) {
                    // Not USER_NOT_FOUND: a re-authentication as another user would sign the user out (accounts contract §3.3).
                    guard creates else { throw AccountError("EMAIL_NOT_FOUND") }
                    guard settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
                    try admitSignUp(from: call.peer)
                    return request.name
                }
            }
            switch result {
            case .confirm(let account):
                // Release the token: after the user signs in another way, the app sends it again to link it.
                await federated.release(identity)
                shown.add("needConfirmation", true)
                shown.add("email", account.email)
                // An unverified claim to the address must not reveal the account's id and how its user signs in.
                if identity.isEmailVerified || !hidesAccounts {
                    shown.add("localId", account.id)
                    shown.add("verifiedProvider", .array(account.providerNames.map(JSONValue.string)))
                }
                return AccountAnswer(kind: "VerifyAssertionResponse", shown)
            case .opened(let opened, let isNew, let isRecycled):
                let tokens = try await issue(opened)
                shown.add("localId", opened.account.id)
                shown.add("email", opened.account.email)
                if opened.account.email != nil { shown.add("emailVerified", .bool(opened.account.isEmailVerified)) }
                shown.add("displayName", opened.account.displayName)
                shown.add("photoUrl", opened.account.photoURL)
                shown.add("isNewUser", .bool(isNew))
                if isRecycled { shown.add("emailRecycled", true) }
                return AccountAnswer(kind: "VerifyAssertionResponse", shown + tokens.members)
            }
        } catch let error as AccountError {
            await federated.release(identity)
            guard wantsCredential, ["FEDERATED_USER_ID_ALREADY_LINKED", "EMAIL_EXISTS"].contains(error.code) else { throw error }
            shown.add("email", identity.email)
            shown.add("errorMessage", error.message)
            return AccountAnswer(kind: "VerifyAssertionResponse", shown)
        }
    }

    /// The verified identity as members of the response (accounts contract §7.4).
    private static func credential(_ identity: FederatedIdentity, _ request: IdpRequest) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = [
            .init("providerId", .string(identity.provider)), .init("federatedId", .string(identity.federatedID)),
            .init("rawUserInfo", .string(identity.rawUserInfo)),
        ]
        members.add("oauthIdToken", request.idToken)
        members.add("oauthAccessToken", request.accessToken)
        members.add("fullName", identity.name ?? request.name)
        members.add("firstName", identity.givenName)
        members.add("lastName", identity.familyName)
        return members
    }

}

/// The result of processing an identity.
private enum Received {
    case opened(OpenedSession, isNew: Bool, isRecycled: Bool)
    case confirm(Account)
}

extension AccountWrite {
    /// - Parameters:
    ///   - token: the verified ID token of the request; nil without one.
    ///   - admitNew: throws if no account may be created; returns the user's name, for a service that does not provide one.
    fileprivate func receive(_ identity: FederatedIdentity, _ token: VerifiedToken?, admitNew: () throws -> String?) throws -> Received {
        let address = identity.email.flatMap(EmailAddress.init)
        let user = try token.map { try transaction.user(of: $0) }
        let known = try transaction.account(.provider(identity.provider, rawID: identity.subject))
        let holder = try address.flatMap { try transaction.account(.email($0.text)) }
        let outcome = FederatedOutcome(
            isSignedIn: user != nil, isKnown: known != nil,
            addressOf: holder == nil ? .none : holder?.id == user?.account.id ? .own : .other,
            // A development hub trusts unverified claims.
            isBelieved: identity.isAuthoritative || settings.isDev && identity.isEmailVerified)
        let entry = LinkedProvider(identity, address)
        switch (outcome, known, holder, user) {
        case (.alreadyLinked, _, _, _): throw AccountError("FEDERATED_USER_ID_ALREADY_LINKED")
        case (.addressTaken, _, _, _): throw AccountError("EMAIL_EXISTS")
        case (.link, _, _, let user?):
            return .opened(try link(entry, identity, address, user), isNew: false, isRecycled: false)
        case (.signIn, let account?, _, _):
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            return .opened(try signIn(account, as: entry), isNew: false, isRecycled: false)
        case (.join, _, let account?, _): return try join(account, entry)
        case (.confirm, _, let account?, _): return .confirm(account)
        default: return .opened(try create(entry, identity, address, name: try admitNew()), isNew: true, isRecycled: false)
        }
    }

    private func create(
        _ entry: LinkedProvider, _ identity: FederatedIdentity, _ address: EmailAddress?, name: String?
    ) throws -> OpenedSession {
        var account = Account(id: RandomName.accountID(), createdAt: now())
        account.email = address?.text
        account.isEmailVerified = address != nil && identity.isEmailVerified
        account.displayName = entry.displayName ?? name.map(LinkedProvider.cut)
        account.photoURL = entry.photoURL
        account.providers = [entry]
        return try begin(account, provider: entry.id)
    }

    /// Keeps the account's own address and name, which its user may have changed.
    private func signIn(_ former: Account, as entry: LinkedProvider) throws -> OpenedSession {
        var account = former
        account.set(entry)
        try audit(.signIn, account.id, entry.id)
        return try open(account, provider: entry.id)
    }

    /// Adds the identity to the account with its address, which the service confirms to be its user's.
    private func join(_ former: Account, _ entry: LinkedProvider) throws -> Received {
        guard !former.isDisabled else { throw AccountError("USER_DISABLED") }
        var account = former
        // The service has given the address to another person, so the former owner loses access as if the address was never verified.
        let isRecycled = account.providers.contains { $0.id == entry.id }
        if !account.isEmailVerified || isRecycled { try reclaim(&account) }
        account.isEmailVerified = true
        account.displayName = entry.displayName
        account.photoURL = entry.photoURL
        account.set(entry)
        try audit(.providerLinked, account.id, entry.id)
        return .opened(try open(account, provider: entry.id), isNew: false, isRecycled: isRecycled)
    }

    private func link(
        _ entry: LinkedProvider, _ identity: FederatedIdentity, _ address: EmailAddress?, _ user: TokenUser
    ) throws -> OpenedSession {
        // A linked service is a permanent way to sign in, which a stolen token alone must not be able to add.
        try user.requireRecentSignIn(settings, now: now())
        var account = user.account
        account.set(entry)
        if let address, account.email == nil {
            if try identity.isEmailVerified || mayTake(unproven: address, account) {
                try changeAddress(of: &account, to: address, isVerified: identity.isEmailVerified)
            }
        } else if let address, account.email == address.text, identity.isEmailVerified {
            account.isEmailVerified = true
        }
        try audit(.providerLinked, account.id, entry.id)
        // It may have replaced another identity.
        try announceClaims(of: account, since: user.account, by: user.session)
        // The previous session stays: if this response is lost, its device is still signed in. The new session keeps its sign-in time.
        return try open(account, provider: entry.id, continuing: user.session)
    }
}

extension LinkedProvider {
    fileprivate init(_ identity: FederatedIdentity, _ address: EmailAddress?) {
        self.init(id: identity.provider, rawID: identity.subject)
        email = address?.text ?? identity.email
        displayName = identity.name.map(Self.cut)
        photoURL = identity.picture.flatMap { $0.utf8.count <= 2048 ? $0 : nil }
        screenName = identity.screenName.map(Self.cut)
    }

    /// Cut to 256 Unicode scalars, the limit of a display name.
    fileprivate static func cut(_ name: String) -> String { String(String.UnicodeScalarView(name.unicodeScalars.prefix(256))) }
}

extension Account {
    /// Adds an identity, replacing another one of the same service.
    fileprivate mutating func set(_ entry: LinkedProvider) {
        if let at = providers.firstIndex(where: { $0.id == entry.id }) { providers[at] = entry } else { providers.append(entry) }
    }
}

/// The body of `accounts:signInWithIdp` (accounts contract §7.1).
struct IdpRequest: Sendable {
    /// In lower case.
    let provider: String
    let idToken: String?
    let accessToken: String?
    let nonce: String?
    /// The user's name, which Apple passes only to the app and only at the first sign-in. Not verified.
    let name: String?

    /// - Throws: MISSING_REQUEST_URI, INVALID_REQUEST_URI, INVALID_CREDENTIAL_OR_PROVIDER_ID.
    init(_ call: AccountCall) throws(AccountError) {
        guard let uri = try call.filled("requestUri") else { throw AccountError("MISSING_REQUEST_URI") }
        guard Self.isAbsolute(uri) else { throw AccountError("INVALID_REQUEST_URI") }
        let (query, fragment) = Self.parameters(uri)
        let sources = [fragment, try call.text("postBody") ?? "", query].map { FormFields(lenient: $0) }
        func value(_ names: String...) -> String? {
            for source in sources { for name in names { if let value = source[name], !value.isEmpty { return value } } }
            return nil
        }
        guard let provider = value("providerId", "provider_id") else {
            throw AccountError("INVALID_CREDENTIAL_OR_PROVIDER_ID", "Invalid IdP response/credential, there is no providerId.")
        }
        self.provider = provider.lowercased()
        idToken = value("id_token", "idToken")
        accessToken = value("access_token", "accessToken")
        nonce = value("nonce")
        name = value("user").flatMap(Self.name)
    }

    private static func isAbsolute(_ uri: String) -> Bool {
        guard let colon = uri.firstIndex(of: ":") else { return false }
        let (scheme, rest) = (uri[..<colon], uri[colon...].dropFirst())
        return scheme.first?.isLetter == true && scheme.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
            && rest.hasPrefix("//") && rest.utf8.count > 2
    }

    private static func parameters(_ uri: String) -> (query: String, fragment: String) {
        let hash = uri.firstIndex(of: "#") ?? uri.endIndex
        let mark = uri[..<hash].firstIndex(of: "?") ?? hash
        return (String(uri[mark..<hash].dropFirst()), String(uri[hash...].dropFirst()))
    }

    /// `{"name":{"firstName":"Ana","lastName":"B"},"email":…}`
    private static func name(_ text: String) -> String? {
        guard let user = try? JSONValue(Array(text.utf8)) else { return nil }
        let parts = ["firstName", "lastName"].compactMap { user["name"]?[$0]?.string }.filter { !$0.isEmpty }
        return parts.isEmpty ? nil : parts.joined(separator: " ")
    }
}

/// The outcome for an identity that another service vouches for (accounts contract §7.3). A pure decision:
///
///     signed in already? ── identity known ──────────────► alreadyLinked
///       (idToken)        ├─ address is another's ────────► addressTaken
///                        └─ else ────────────────────────► link
///     else               ┌─ identity known ──────────────► signIn
///                        ├─ address is an account's ─┬─ and the service is authoritative ─► join
///                        │                           └─ or not ───────────────────────────► confirm
///                        └─ else ────────────────────────► create
enum FederatedOutcome: Equatable {
    /// Signs in to the account with this identity.
    case signIn
    /// Adds the identity to the account with the address.
    case join
    /// The account with the address exists: its user must first sign in another way, and then link the identity.
    case confirm
    case create
    /// Adds the identity to the account of the ID token.
    case link
    case alreadyLinked
    case addressTaken

    /// - Parameters:
    ///   - isSignedIn: whether the request has an ID token.
    ///   - isKnown: whether an account has this identity.
    ///   - addressOf: the account with the identity's address: none, that of the ID token, or another.
    ///   - isBelieved: whether the service is authoritative for the address.
    init(isSignedIn: Bool, isKnown: Bool, addressOf holder: Holder, isBelieved: Bool) {
        self =
            if isSignedIn {
                isKnown ? .alreadyLinked : holder == .other ? .addressTaken : .link
            } else if isKnown { .signIn } else if holder == .none { .create } else { isBelieved ? .join : .confirm }
    }

    enum Holder: Equatable, CaseIterable { case none, own, other }
}
