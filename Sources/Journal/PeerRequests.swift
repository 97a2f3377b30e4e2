/// Which forwarded requests of each follower the writer has carried out. Kept beside the tree and restored with it, so that a new writer
/// carries out none of them a second time.
///
/// ```
/// join, at commit 7 ─► done: request 1 ─► done: request 3, all before 2 are settled ─► … ─► gone: the hub was removed
///                      └ in the commit of the request
/// ```
/// Refused requests leave nothing here. A value type: the last durable one is kept for a rollback.
public struct PeerRequests: Sendable, Equatable {
    /// A request that was carried out.
    public struct Done: Sendable, Equatable {
        public let number: UInt64
        public let client: UInt64
        /// The commit that carried it out.
        public let sequence: UInt64
    }

    public struct Peer: Sendable, Equatable {
        /// The commit by which it joined. A request that names another one was sent before the hub was removed, and is not carried out.
        public let joined: UInt64
        /// The hub has settled all its requests before this one.
        public fileprivate(set) var base: UInt64 = 0
        /// The highest request number that was carried out.
        public fileprivate(set) var newest: UInt64 = 0
        /// In the order of their commits.
        public fileprivate(set) var done: [Done] = []
    }

    public private(set) var peers: [UInt64: Peer] = [:]

    public init() {}

    public var isEmpty: Bool { peers.isEmpty }

    public subscript(hub: UInt64) -> Peer? { peers[hub] }

    /// O(requests of the hub that are not settled)
    public mutating func apply(_ change: PeerChange) {
        switch change {
        case .join(let hub, let sequence): peers[hub] = Peer(joined: sequence)
        case .gone(let hub): peers[hub] = nil
        case .done(let mark, let sequence):
            guard var peer = peers.removeValue(forKey: mark.hub) else { return }
            if mark.base > peer.base {
                peer.base = mark.base
                peer.done.removeAll { $0.number < mark.base }
            }
            peer.newest = max(peer.newest, mark.number)
            peer.done.append(Done(number: mark.number, client: mark.client, sequence: sequence))
            peers[mark.hub] = peer
        }
    }

    /// The changes that recreate this value from an empty one.
    public var changes: [PeerChange] {
        peers.sorted { $0.key < $1.key }.flatMap { hub, peer in
            [.join(hub: hub, at: peer.joined)] + peer.done.map { done in
                .done(PeerMark(hub: hub, number: done.number, client: done.client, base: peer.base), at: done.sequence)
            }
        }
    }
}

/// Identifies a forwarded request, in the commit that carries it out.
public struct PeerMark: Sendable, Equatable {
    /// The hub that forwarded it.
    public let hub: UInt64
    /// Unique among all requests of the hub, in request order.
    public let number: UInt64
    /// The client, unique in the hub.
    public let client: UInt64
    /// The hub has settled all its requests before this one.
    public let base: UInt64

    public init(hub: UInt64, number: UInt64, client: UInt64, base: UInt64) {
        (self.hub, self.number, self.client, self.base) = (hub, number, client, base)
    }
}

/// A change of the state of forwarded requests.
public enum PeerChange: Sendable, Equatable {
    /// A hub may forward requests from now on.
    /// - sequence: the commit that contains this.
    case join(hub: UInt64, at: UInt64)
    /// The commit carries out a request.
    case done(PeerMark, at: UInt64)
    /// A hub was removed: its requests are not carried out any more.
    case gone(hub: UInt64)
}
