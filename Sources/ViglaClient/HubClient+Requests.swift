public import JSONTree
public import LiveQueries
public import WireProtocols

extension HubClient {
    /// The result of a write: the number of its commit.
    public typealias WriteDone = @Sendable (Result<Int64, ClientError>) -> Void
    /// The result of a request without a value in its answer.
    public typealias Done = @Sendable (Result<Void, ClientError>) -> Void

    /// Reads a place once; null when it is empty.
    /// - Parameter query: which children; nil for the whole place.
    public func get(_ path: Path, query: Query? = nil, _ done: @escaping @Sendable (Result<Node, ClientError>) -> Void) {
        perform(.get(path: path, query: query)) { done($0.map { $0.value ?? .null }) }
    }

    /// The number of children, or of those that the query selects; the children are not sent.
    public func count(_ path: Path, query: Query? = nil, _ done: @escaping @Sendable (Result<Int64, ClientError>) -> Void) {
        perform(.count(path: path, query: query)) { done($0.map { $0.count ?? 0 }) }
    }

    /// Replaces the value of the place.
    public func set(_ path: Path, _ value: WriteValue, _ done: WriteDone? = nil) {
        perform(.set(TreeWrite(path, value)), Self.sequence(done))
    }

    /// Writes several places below `path` in one commit, or none of them.
    public func update(_ path: Path, _ writes: [(Path, WriteValue)], _ done: WriteDone? = nil) {
        perform(.update(path: path, writes.map { TreeWrite($0.0, $0.1) }), Self.sequence(done))
    }

    /// Adds a child whose key the hub chooses, so that children sort by time. The answer is the key.
    public func push(_ path: Path, _ value: WriteValue, _ done: (@Sendable (Result<Key, ClientError>) -> Void)? = nil) {
        perform(.push(path: path, value)) { result in
            done?(result.flatMap { success in success.key.map(Result.success) ?? .failure(.badAnswer("push was answered without a key")) })
        }
    }

    /// Removes the value of the place.
    public func remove(_ path: Path, _ done: WriteDone? = nil) {
        perform(.remove(TreeWrite(path, WriteValue(.null))), Self.sequence(done))
    }

    /// Registers an operation that the hub runs when this connection has ended, or cancels it. It runs once: register it again at each
    /// `State.connected`.
    public func onDisconnect(_ leaving: DisconnectOperation, _ done: Done? = nil) { perform(.onDisconnect(leaving), Self.nothing(done)) }

    /// Checks whether the hub answers.
    public func ping(_ done: @escaping Done) { perform(.ping, Self.nothing(done)) }

    /// Sets a place to a value computed from its current one; retries with the newer value when another writer was faster, 25 times in all.
    /// - Parameter update: called on the client's loop with the current value, null for an empty place.
    /// - Parameter done: gets the value that was set; fails with `stale` when other writers were always faster.
    public func transaction(
        _ path: Path, _ update: @escaping @Sendable (Node) -> WriteValue, _ done: (@Sendable (Result<Node, ClientError>) -> Void)? = nil
    ) {
        get(path) { [self] result in
            switch result {
            case .success(let was): attempt(path, was: was, left: 24, update, done)
            case .failure(let error): done?(.failure(error))
            }
        }
    }

    private func attempt(
        _ path: Path, was: Node, left: Int, _ update: @escaping @Sendable (Node) -> WriteValue,
        _ done: (@Sendable (Result<Node, ClientError>) -> Void)?
    ) {
        let value = update(was)
        perform(.transaction(TreeWrite(path, value), hash: was.exists ? was.hash : "")) { [self] result in
            switch result {
            case .success: done?(.success(value.node))
            case .failure(.refused(let failure)) where failure.known == .stale && left > 0:
                if let now = failure.value { return attempt(path, was: now, left: left - 1, update, done) }
                get(path) { [self] result in
                    switch result {
                    case .success(let now): attempt(path, was: now, left: left - 1, update, done)
                    case .failure(let error): done?(.failure(error))
                    }
                }
            case .failure(let error): done?(.failure(error))
            }
        }
    }

    private static func sequence(_ done: WriteDone?) -> (@Sendable (Result<ObserveSuccess, ClientError>) -> Void)? {
        guard let done else { return nil }
        return { done($0.map { $0.seq ?? 0 }) }
    }

    private static func nothing(_ done: Done?) -> (@Sendable (Result<ObserveSuccess, ClientError>) -> Void)? {
        guard let done else { return nil }
        return { done($0.map { _ in }) }
    }
}

extension WriteValue {
    /// Data as JSON text, including server values (`{".sv":"timestamp"}`).
    /// - Throws: `JSONError` for text that is not JSON or cannot be stored.
    public init(json: String) throws(JSONError) {
        var native = json
        let result: Result<WriteValue, JSONError> = native.withUTF8 { bytes in
            do throws(JSONError) {
                var reader = JSONReader(UnsafeRawBufferPointer(bytes))
                let value = try reader.writeValue()
                try reader.expectEnd()
                return .success(value)
            } catch { return .failure(error) }
        }
        self = try result.get()
    }
}
