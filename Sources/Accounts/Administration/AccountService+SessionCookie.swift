import JSONTree
import Tokens

extension AccountService {
    /// Seconds that a session cookie may be made for, and the longest where the call does not say (accounts contract §5.3).
    private static let cookieSeconds: ClosedRange<Int64> = 300...1_209_600

    /// `projects/{p}:createSessionCookie`: a long-lived token for a web server's cookie, of the user of an ID token. It is no ID token:
    /// neither the database nor these endpoints take it. The web server checks it against our keys (accounts contract §10).
    func createSessionCookie(_ call: AccountCall) async throws -> AccountAnswer {
        let lifetime = call.has("validDuration") ? call.body["validDuration"]?.int : Self.cookieSeconds.upperBound
        guard let lifetime, Self.cookieSeconds ~= lifetime else { throw AccountError("INVALID_DURATION") }
        let token = try idToken(call)
        let user = try store.read { try $0.user(of: token) }
        let claims = IdentityClaims(user.account, user.session, now: nowSeconds, lifetime: Int(lifetime))
        let payload = claims.payload(project: settings.project, issuer: "https://session.firebase.google.com/\(settings.project)")
        return AccountAnswer([.init("sessionCookie", .string(try tokens.keys.sign(payload)))])
    }
}
