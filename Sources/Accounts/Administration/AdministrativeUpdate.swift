import JSONTree
import Tokens

/// What only an administrator sets in an account, beside what users change in their own (accounts contract §10); read and
/// checked, not carried out. What is nil stays as it is.
struct AdministrativeUpdate: Sendable {
    private var isEmailVerified: Bool?
    private var isDisabled: Bool?
    /// `.some(nil)` takes it away; so do the next.
    private var phoneNumber: String??
    private var customClaims: String??
    /// ms since the epoch.
    private var createdAt: Int64?
    private var lastLoginAt: Int64?
    private var linked: [LinkedProvider] = []

    /// - Throws: INVALID_PHONE_NUMBER, INVALID_CLAIMS, CLAIMS_TOO_LARGE, FORBIDDEN_CLAIM, INVALID_PROVIDER_ID.
    init(_ call: AccountCall, _ settings: AccountSettings) throws(AccountError) {
        isEmailVerified = try call.flag("emailVerified")
        // Creating and importing say the one, updating the other.
        isDisabled = try call.flag("disableUser")
        if isDisabled == nil { isDisabled = try call.flag("disabled") }
        phoneNumber = try call.change("phoneNumber", length: 32)
        if case .some(.some(let number)) = phoneNumber, !Self.isPhoneNumber(number) {
            throw AccountError("INVALID_PHONE_NUMBER", "It is a + with 1 to 15 digits")
        }
        if call.body["customAttributes"] != nil {
            let claims = try CustomClaims(json: call.filled("customAttributes") ?? "{}", length: settings.claimsLength)
            customClaims = .some(claims.isEmpty ? nil : try call.filled("customAttributes"))
        }
        createdAt = try call.time("createdAt")
        lastLoginAt = try call.time("lastLoginAt")
        for entry in try call.objects("linkProviderUserInfo") + call.objects("providerUserInfo") { try link(entry) }
    }

    /// What stands for an address, a password or a number is made of them and not linked.
    private static let derived: Set<String> = ["password", "phone", "emailLink"]

    private mutating func link(_ entry: AccountCall) throws(AccountError) {
        guard let id = try entry.filled("providerId") else { throw AccountError("INVALID_PROVIDER_ID", "Every provider has an id") }
        guard !Self.derived.contains(id) else { return }
        var subject = try entry.filled("rawId")
        if subject == nil { subject = try entry.filled("federatedId") }
        guard let rawID = subject else {
            throw AccountError("INVALID_PROVIDER_ID", "An identity at \(id.prefix(64)) has a rawId")
        }
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
            // One of each; another identity at the same service takes its place.
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
    /// The same call about something that its body holds.
    func about(_ body: JSONValue) -> AccountCall { AccountCall(body: body, caller: caller, peer: peer, project: project, request: request) }

    /// A list of objects, or one alone; empty when absent.
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

    /// A time in ms since the epoch, as a number or as digits; nil when absent.
    func time(_ name: String) throws(AccountError) -> Int64? {
        guard let value = body[name], !value.isNull else { return nil }
        guard let time = value.int, time >= 0 else { throw .invalid(name, "milliseconds since the epoch are expected") }
        return time
    }
}
