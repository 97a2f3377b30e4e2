import Synchronization
import WireProtocols

/// Counts sign-ups, sign-ins and token refreshes by method and outcome, `ok` or the error's code, for metrics. From any thread.
public final class SignInCounts: Sendable {
    /// The methods, by the last part of their paths.
    private static let ways = [
        "accounts:signUp": "sign_up", "signupNewUser": "sign_up", "accounts:signInWithPassword": "password", "verifyPassword": "password",
        "accounts:signInWithEmailLink": "link", "emailLinkSignin": "link", "accounts:signInWithIdp": "provider",
        "verifyAssertion": "provider", "accounts:signInWithCustomToken": "custom", "verifyCustomToken": "custom",
    ]
    /// Most distinct pairs of method and outcome; further ones count as `other`.
    static let most = 100

    private struct Pair: Hashable { let way, outcome: String }

    private let counts = Mutex<[Pair: Int]>([:])

    /// - Parameters:
    ///   - path: a route's path, as in `AccountRoutes.byPath`. Other paths than sign-ins are not counted.
    ///   - error: nil for success.
    func add(_ path: String, _ error: String?) {
        let last = path.split(separator: "/").last.map(String.init) ?? path
        let way = last == "token" ? (path.hasPrefix("securetoken") ? "refresh" : "oauth") : Self.ways[last]
        guard let way else { return }
        // Only codes of the contract; free text would create a new label each time.
        let code = error.map { error in
            let head = error.prefix { $0 == "_" || $0.isASCII && $0.isUppercase }
            return head.count == error.count && !head.isEmpty ? error : "other"
        }
        counts.withLock { counts in
            var pair = Pair(way: way, outcome: code ?? "ok")
            if counts[pair] == nil, counts.count >= Self.most { pair = Pair(way: way, outcome: "other") }
            counts[pair, default: 0] += 1
        }
    }

    /// Sorted by name.
    public var reading: [(way: String, outcome: String, count: Int)] {
        counts.withLock { $0.map { ($0.key.way, $0.key.outcome, $0.value) } }.sorted { ($0.0, $0.1) < ($1.0, $1.1) }
    }
}
