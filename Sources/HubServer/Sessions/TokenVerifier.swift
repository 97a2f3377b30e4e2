public import HubEngine

/// Checks tokens that somebody has signed. Development tokens and `owner` never come here.
public protocol TokenVerifier: Sendable {
    /// Finds out whose token it is. Callable from any thread.
    /// - Parameter done: called once, from any thread. `Identity.expires` ends the session when the time has come; a refusal
    ///   has the code `invalidToken` or `expiredToken`.
    func verify(_ token: String, _ done: @escaping @Sendable (Result<Identity, Failure>) -> Void)
}
