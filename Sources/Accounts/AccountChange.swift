import Synchronization
import Tokens

/// A change that an account's connections must feel at once (accounts contract §15).
public struct AccountChange: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        case disabled, deleted
        /// Every token from before is over: another password or address, `validSince`, all sessions ended.
        case revoked
        /// What rules see of the user is another.
        case claimsChanged
        /// One session is over, as it is named in the claim `sid` of its tokens.
        case sessionEnded(String)
    }

    public let uid: String
    public let kind: Kind

    public init(_ uid: String, _ kind: Kind) {
        self.uid = uid
        self.kind = kind
    }

    /// The one session that is concerned; nil for all of the account's.
    public var session: String? { if case .sessionEnded(let id) = kind { id } else { nil } }
}

extension AccountService {
    /// Sets what is told of every change, on the service's queue, in the order in which they were stored.
    public nonisolated func whenChanged(_ listener: (@Sendable (AccountChange) -> Void)?) { self.listener.withLock { $0 = listener } }

    /// To be called behind the transaction that has stored the change, without waiting for anything in between: a token that is
    /// checked before the listener hears of it is still found by the listener. Tokens of the account are looked at again from here on.
    func announce(_ change: AccountChange) {
        tokens.forget(uid: change.uid)
        listener.withLock { $0 }?(change)
    }
}
