import JSONTree

/// What `accounts:signInWithIdp` was sent (accounts contract §7.1).
struct IdpRequest: Sendable {
    /// In lower case.
    let provider: String
    let idToken: String?
    let accessToken: String?
    let nonce: String?
    /// What Apple tells only the app, at the first sign-in: the user's name. The user's own word.
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
