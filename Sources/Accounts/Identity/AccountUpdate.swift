import JSONTree

/// What `accounts:update` asks for (accounts contract §6.4); read and checked, not carried out.
struct AccountUpdate: Sendable {
    /// Nil leaves it, `.some(nil)` clears it.
    var displayName: String??
    var photoURL: String??
    var email: EmailAddress?
    var clearsEmail = false
    /// The password as it was typed; see `passwordHash`.
    var password: String?
    var clearsPassword = false
    /// Providers to unlink; `password` and `phone` stand for what they are made of.
    var unlinked: Set<String> = []
    /// All sessions are to end.
    var revokes = false

    /// Filled in once the password is hashed.
    var passwordHash: String?

    init(_ call: AccountCall) throws(AccountError) {
        displayName = try call.change("displayName", length: 256)
        photoURL = try call.change("photoUrl", length: 2048)
        if let text = try call.text("email") {
            guard let address = EmailAddress(text) else { throw AccountError("INVALID_EMAIL") }
            email = address
        }
        password = try call.text("password")
        unlinked = Set(try call.texts("deleteProvider"))
        revokes = call.has("validSince")
        for attribute in try Self.attributes(call.body["deleteAttribute"]) {
            switch attribute {
            case .displayName: displayName = .some(nil)
            case .photoURL: photoURL = .some(nil)
            case .email: clearsEmail = true
            case .password: clearsPassword = true
            case .other: break
            }
        }
    }

    /// Whether it needs a recent sign-in.
    var isSensitive: Bool { email != nil || clearsEmail || password != nil || clearsPassword || !unlinked.isEmpty }

    // MARK: deleteAttribute

    private enum Attribute { case email, displayName, photoURL, password, other }

    /// Names, or their numbers, which Android's SDK sends.
    private static func attributes(_ value: JSONValue?) throws(AccountError) -> [Attribute] {
        switch value {
        case nil, .null: return []
        case .array(let elements):
            return elements.map { element in
                switch element {
                case "EMAIL", 1: .email
                case "DISPLAY_NAME", 2: .displayName
                case "PHOTO_URL", 4: .photoURL
                case "PASSWORD", 5: .password
                default: .other
                }
            }
        default: throw .invalid("deleteAttribute", "a list is expected")
        }
    }
}
