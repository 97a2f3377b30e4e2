public import HTTPTypes

extension HTTPFields {
    /// Forbids pages of other origins to show this response in a frame, where a hidden page could capture the user's clicks. Adds
    /// `frame-ancestors` (CSP §6.4.2) to the policy, and `X-Frame-Options` for browsers without it (RFC 7034).
    public mutating func forbidFrames() {
        let policy = self[.contentSecurityPolicy].map { $0 + "; " } ?? ""
        self[.contentSecurityPolicy] = policy + "frame-ancestors 'none'"
        if let name = HTTPField.Name("X-Frame-Options") { self[name] = "DENY" }
    }
}
