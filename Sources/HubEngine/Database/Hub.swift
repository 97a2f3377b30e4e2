import Dispatch
import Synchronization

/// The databases of a server, by namespace.
///
/// Opening one may read a whole journal, so databases are opened one after the other on a separate queue. Finding an open one costs a
/// dictionary lookup.
public final class Hub: Sendable {
    private let databases = Mutex<[String: Database]>([:])
    private let opening = DispatchQueue(label: "vigla.hub.opening")
    /// Creates the database of a namespace at its first request; nil refuses it.
    private let make: @Sendable (String) -> Database?

    public init(make: @escaping @Sendable (String) -> Database?) { self.make = make }

    /// The database of a namespace that has been opened. From any thread.
    public func database(_ name: String) -> Database? { databases.withLock { $0[name] } }

    /// Opens a namespace; nil when it is unknown or cannot be opened. Calls back on the opening queue, immediately if it is open.
    public func open(_ name: String, _ done: @escaping @Sendable (Database?) -> Void) {
        opening.async { [self] in done(openHere(name)) }
    }

    /// Opens a namespace and waits for it. Never on a net loop.
    public func openNow(_ name: String) -> Database? { opening.sync { openHere(name) } }

    private func openHere(_ name: String) -> Database? {
        if let known = database(name) { return known }
        guard let made = make(name) else { return nil }
        databases.withLock { $0[name] = made }
        return made
    }

    /// Forgets a database, which ends when its last user does. Calls back with it on the opening queue, with nil if it was not open.
    public func remove(_ name: String, _ done: @escaping @Sendable (Database?) -> Void) {
        opening.async { [self] in done(databases.withLock { $0.removeValue(forKey: name) }) }
    }

    /// Calls back with all open databases, after those being opened now. On the same queue as `open`.
    public func settled(_ done: @escaping @Sendable ([Database]) -> Void) {
        opening.async { [self] in done(all) }
    }

    /// All open databases. From any thread.
    public var all: [Database] { databases.withLock { Array($0.values) } }
}
