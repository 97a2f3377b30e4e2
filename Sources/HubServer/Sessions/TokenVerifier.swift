public import HubEngine

/// Checks tokens that somebody has signed. Development tokens and `owner` never come here.
public protocol TokenVerifier: Sendable {
    /// Whose token it is, if it was good before and still is; nil when it must be verified. Callable from any thread, often, and
    /// on a net loop: a look-up and no more. Default: nil.
    func remembered(_ token: String) -> Identity?
    /// Finds out whose token it is. Called on a thread that may take its time, never on a net loop.
    /// - Parameter done: called once, from any thread. `Identity.expires` ends the session when the time has come; a refusal
    ///   has the code `invalidToken` or `expiredToken`.
    func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void)
}

extension TokenVerifier {
    public func remembered(_ token: String) -> Identity? { nil }
}
