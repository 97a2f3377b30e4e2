import Dispatch
import Synchronization

/// The databases of a server, by namespace.
///
/// Opening one may read a whole journal, so it happens on a queue of its own, one after the other; finding one that is open
/// takes no longer than a look into a table.
public final class Hub: Sendable {
    private let databases = Mutex<[String: Database]>([:])
    private let opening = DispatchQueue(label: "vigla.hub.opening")
    /// Makes the database of a namespace at the first request for it, or refuses it.
    private let make: @Sendable (String) -> Database?

    public init(make: @escaping @Sendable (String) -> Database?) { self.make = make }

    /// The database of a namespace that has been opened. From any thread.
    public func database(_ name: String) -> Database? { databases.withLock { $0[name] } }

    /// Opens a namespace; nil when it is unknown or cannot be. Calls back on a queue of its own, at once if it is open.
    public func open(_ name: String, _ done: @escaping @Sendable (Database?) -> Void) {
        opening.async { [self] in done(openHere(name)) }
    }

    /// The same for a caller that can wait. Never on a net loop.
    public func openNow(_ name: String) -> Database? { opening.sync { openHere(name) } }

    private func openHere(_ name: String) -> Database? {
        if let known = database(name) { return known }
        guard let made = make(name) else { return nil }
        databases.withLock { $0[name] = made }
        return made
    }

    /// Calls back with all that are open, behind those that are being opened. On the same queue as `open`.
    public func settled(_ done: @escaping @Sendable ([Database]) -> Void) {
        opening.async { [self] in done(all) }
    }

    /// All that are open. From any thread.
    public var all: [Database] { databases.withLock { Array($0.values) } }
}
