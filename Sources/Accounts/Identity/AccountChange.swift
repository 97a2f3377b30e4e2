import Synchronization

/// What happened to an account that concerns those who are connected as its user (accounts contract §15).
public struct AccountChange: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        case disabled
        case deleted
        /// All its sessions are over, but for one that began with the change.
        case revoked
        case claimsChanged
        case sessionEnded
    }

    public let uid: String
    public let kind: Kind
    /// The one session that it is about; nil when it is about all.
    public let session: String?

    public init(_ kind: Kind, uid: String, session: String? = nil) {
        self.uid = uid
        self.kind = kind
        self.session = session
    }

    public var isDeletion: Bool { kind == .deleted }
}

/// What the service needs of the server around it. Set once, before the first request.
final class AccountSurroundings: Sendable {
    struct State: Sendable {
        var isAdministrator: @Sendable (String) -> Bool = { _ in false }
        var whenChanged: @Sendable (AccountChange) -> Void = { _ in }
        /// Where the hub can be reached, when the settings do not say.
        var address = "http://localhost"
    }

    private let state = Mutex(State())

    var current: State { state.withLock { $0 } }

    func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }
}

extension AccountService {
    /// Joins the service to the server around it. From any thread, before the first request.
    /// - Parameters:
    ///   - address: where the hub can be reached, without a trailing slash: what mailed links begin with, unless the settings say.
    ///   - isAdministrator: whether a Bearer token is an administrator's. From the service's queue; must not block.
    ///   - whenChanged: called behind the commit, on the service's queue, in the order of the commits.
    public nonisolated func join(
        address: String, isAdministrator: @escaping @Sendable (String) -> Bool, whenChanged: @escaping @Sendable (AccountChange) -> Void
    ) {
        surroundings.change {
            $0.address = address
            $0.isAdministrator = isAdministrator
            $0.whenChanged = whenChanged
        }
    }
}
