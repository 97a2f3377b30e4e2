public import JSONTree
public import WireProtocols

extension HubClient {
    /// The result of a write: the number of its commit.
    public typealias WriteDone = @Sendable (Result<Int64, ClientError>) -> Void
    /// The result of a request that answers nothing.
    public typealias Done = @Sendable (Result<Void, ClientError>) -> Void

    /// Reads a place once; null when there is nothing.
    /// - Parameter query: which children; nil for the whole place.
    public func get(_ path: Path, query: ObserveQuery? = nil, _ done: @escaping @Sendable (Result<Node, ClientError>) -> Void) {
        perform(.get(path: path, query: query)) { done($0.map { $0.value ?? .null }) }
    }

    /// How many children there are, or the query selects; none of them is sent.
    public func count(_ path: Path, query: ObserveQuery? = nil, _ done: @escaping @Sendable (Result<Int64, ClientError>) -> Void) {
        perform(.count(path: path, query: query)) { done($0.map { $0.count ?? 0 }) }
    }

    /// Replaces what is at the place.
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

    /// Removes what is at the place.
    public func remove(_ path: Path, _ done: WriteDone? = nil) {
        perform(.remove(TreeWrite(path, WriteValue(.null))), Self.sequence(done))
    }

    /// Leaves something for the hub to do when this connection has ended, or takes it back. It is done once: with each
    /// `State.connected` it is to be left anew.
    public func onDisconnect(_ leaving: ObserveLeaving, _ done: Done? = nil) { perform(.onDisconnect(leaving), Self.nothing(done)) }

    /// Hears whether the hub answers.
    public func ping(_ done: @escaping Done) { perform(.ping, Self.nothing(done)) }

    /// Sets a place to what follows from its value; again with the value there then if another writer was faster, 25 times in all.
    /// - Parameter update: called on the client's loop with what is there, null for nothing.
    /// - Parameter done: told the value that was set; refused with `stale` when others always were faster.
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
    /// Data as JSON text, server values (`{".sv":"timestamp"}`) included.
    /// - Throws: `JSONError` for what is not JSON or cannot be stored.
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
