import DispatchNet
import HubEngine
import Synchronization

/// Bytes sent to each user, with `--bytes-by-user`.
///
/// ```
/// signed in ─► counter ─► Connection.sentBytes: one addition for each write system call, whatever its content
///                 └── users without a connection: only those with the most bytes are remembered, the others as one sum
/// ```
final class UserBytes: Sendable {
    /// The most users that are shown: those with the most bytes.
    static let shown = 100
    /// Bytes of the longest user name that is remembered.
    static let nameBytes = 128

    private struct Table {
        /// Counters of connected users and some others. The empty name sums up all names that are too long.
        var counters: [String: ByteCounter] = [:]
        /// Bytes of users that are no longer remembered.
        var forgotten = 0
        /// Number of counters at which `forget` runs.
        var full: Int
    }

    private let remembered: Int
    private let table: Mutex<Table>

    /// - Parameter remembered: number of users without a connection to remember; temporarily up to twice as many.
    init(remembered: Int) {
        self.remembered = remembered
        table = Mutex(Table(full: Self.full(remembered, connected: 0)))
    }

    private static func full(_ remembered: Int, connected: Int) -> Int { max(16, 2 * (remembered + connected)) }

    /// The counter of a user; each holder is a connection of that user. From any thread. Amortised O(log users)
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

    /// Forgets users without a connection, except those with the most bytes.
    private func forget(_ table: inout Table) {
        var idle: [(name: String, bytes: Int)] = []
        for name in Array(table.counters.keys) {
            // Counters are handed out under this lock only: a counter without another reference gets no more bytes.
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

    /// Number of users remembered.
    var count: Int { table.withLock { $0.counters.count } }

    /// Bytes by user, largest first; then the sum of all others, with an empty name. From any thread. O(users · log users)
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
    /// The byte counter of an identity's user; nil for an anonymous client, and when bytes are not counted by user.
    func byteCounter(of identity: Identity) -> ByteCounter? {
        guard let users = sessions.users, let user = identity.uid else { return nil }
        return users.counter(of: user)
    }
}
