import Synchronization

/// The databases of a server, by namespace.
public final class Hub: Sendable {
    private let databases = Mutex<[String: Database]>([:])
    /// Makes the database of a namespace nobody has asked for yet, or refuses it.
    private let make: @Sendable (String) -> Database?

    public init(make: @escaping @Sendable (String) -> Database?) { self.make = make }

    /// The database of a namespace, made on first use; nil when the namespace is unknown. Callable from any thread.
    public func database(_ name: String) -> Database? {
        databases.withLock { databases in
            if let known = databases[name] { return known }
            guard let made = make(name) else { return nil }
            databases[name] = made
            return made
        }
    }

    public var all: [Database] { databases.withLock { Array($0.values) } }
}
