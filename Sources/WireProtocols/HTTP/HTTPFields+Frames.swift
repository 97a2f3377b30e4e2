public import HTTPTypes

extension HTTPFields {
    /// Keeps pages of other origins from showing this answer in a frame, where a user could be made to click on what the user does not see:
    /// `frame-ancestors` (CSP §6.4.2), added to the policy, and `X-Frame-Options` for browsers without it (RFC 7034).
    public mutating func forbidFrames() {
        let policy = self[.contentSecurityPolicy].map { $0 + "; " } ?? ""
        self[.contentSecurityPolicy] = policy + "frame-ancestors 'none'"
        if let name = HTTPField.Name("X-Frame-Options") { self[name] = "DENY" }
    }
}
