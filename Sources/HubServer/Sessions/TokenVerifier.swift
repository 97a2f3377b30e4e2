public import HubEngine

/// Verifies signed tokens. It never gets development tokens or `owner`.
public protocol TokenVerifier: Sendable {
    /// The identity of a token that was verified before and is still valid; nil when it must be verified. Called from any thread, often,
    /// and on net loops: it must only be a look-up. Default: nil.
    func remembered(_ token: String) -> Identity?
    /// Verifies a token. Called on a worker thread, which may block; never on a net loop.
    /// - Parameter done: called once, from any thread. `Identity.expires` ends the session at that time; a refusal
    ///   has the code `invalidToken` or `expiredToken`.
    func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void)
}

extension TokenVerifier {
    public func remembered(_ token: String) -> Identity? { nil }
}
