import DispatchNet
import HubEngine
import Synchronization

/// Bytes that were sent to each user, where that is asked for (`--bytes-by-user`).
///
/// ```
/// signed in ─► counter ─► Connection.sentBytes: one addition for each write of the system, whatever was in it
///                 └── of users without a connection only those with most are remembered, the others as one number
/// ```
final class UserBytes: Sendable {
    /// Users that are shown: those with most.
    static let shown = 100
    /// Bytes of the longest name that is remembered.
    static let nameBytes = 128

    private struct Table {
        /// Of those with a connection, and some without. The empty name is for names that are too long.
        var counters: [String: ByteCounter] = [:]
        /// Bytes of users that are not remembered any more.
        var forgotten = 0
        /// So many counters are looked through for some to be forgotten.
        var full: Int
    }

    private let remembered: Int
    private let table: Mutex<Table>

    /// - Parameter remembered: users without a connection; twice as many for a while.
    init(remembered: Int) {
        self.remembered = remembered
        table = Mutex(Table(full: Self.full(remembered, connected: 0)))
    }

    private static func full(_ remembered: Int, connected: Int) -> Int { max(16, 2 * (remembered + connected)) }

    /// The counter of a user; whoever holds it is connected as that user. From any thread. Amortised O(log users)
    func counter(of user: String) -> ByteCounter {
        let name = user.utf8.count > Self.nameBytes ? "" : user
        return table.withLock { table in
            if let known = table.counters[name] { return known }
            if table.counters.count >= table.full { forget(&table) }
            let made = ByteCounter()
            table.counters[name] = made
            return made
        }
    }

    /// Forgets users without a connection, but those with most.
    private func forget(_ table: inout Table) {
        var idle: [(name: String, bytes: Int)] = []
        for name in Array(table.counters.keys) {
            // Counters are given out under the lock alone: what nobody holds now, nobody adds to.
            guard isKnownUniquelyReferenced(&table.counters[name]) else { continue }
            idle.append((name, table.counters[name]?.value ?? 0))
        }
        idle.sort { $0.bytes > $1.bytes }
        for (name, bytes) in idle.dropFirst(remembered) {
            table.counters[name] = nil
            table.forgotten += bytes
        }
        table.full = Self.full(remembered, connected: table.counters.count - min(remembered, idle.count))
    }

    /// Users that are remembered.
    var count: Int { table.withLock { $0.counters.count } }

    /// By user, those with most first; behind them all others together, without a name. From any thread. O(users · log users)
    var reading: [(user: String, bytes: Int)] {
        let (all, forgotten) = table.withLock { ($0.counters.map { (user: $0.key, bytes: $0.value.value) }, $0.forgotten) }
        var named = all.filter { $0.bytes > 0 }
        var others = forgotten
        if let long = named.firstIndex(where: { $0.user.isEmpty }) { others += named.remove(at: long).bytes }
        named.sort { ($1.bytes, $0.user) < ($0.bytes, $1.user) }
        others += named.dropFirst(Self.shown).reduce(0) { $0 + $1.bytes }
        named.removeLast(max(0, named.count - Self.shown))
        if others > 0 { named.append((user: "", bytes: others)) }
        return named
    }
}

extension Server {
    /// The counter of what is sent to somebody; nil for nobody, and where it is not counted by user.
    func byteCounter(of identity: Identity) -> ByteCounter? {
        guard let userBytes, let user = identity.uid else { return nil }
        return userBytes.counter(of: user)
    }
}
