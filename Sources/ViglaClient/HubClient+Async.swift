public import JSONTree
public import LiveQueries
public import WireProtocols

/// The same with `await`, and observers as sequences.
///
///     try await client.set("/status", WriteValue("open"))
///     for try await case .event(.value(let value), _) in client.events(of: "/status") { print(value.json) }
extension HubClient {
    /// Acts as the token's user from now on, also over later connections. Returns the uid.
    @discardableResult
    public func authenticate(_ token: String) async throws(ClientError) -> String {
        try await answer { authenticate(token, $0) }
    }

    /// Reads a place once; null when it is empty.
    public func get(_ path: Path, query: Query? = nil) async throws(ClientError) -> Node {
        try await answer { get(path, query: query, $0) }
    }

    /// The number of children, or of those that the query selects.
    public func count(_ path: Path, query: Query? = nil) async throws(ClientError) -> Int64 {
        try await answer { count(path, query: query, $0) }
    }

    /// Replaces the value of the place. Returns the number of the commit.
    @discardableResult
    public func set(_ path: Path, _ value: WriteValue) async throws(ClientError) -> Int64 {
        try await answer { set(path, value, $0) }
    }

    /// Writes several places below `path` in one commit, or none of them. Returns its number.
    @discardableResult
    public func update(_ path: Path, _ writes: [(Path, WriteValue)]) async throws(ClientError) -> Int64 {
        try await answer { update(path, writes, $0) }
    }

    /// Adds a child. Returns its key, which the hub chooses so that children sort by time.
    @discardableResult
    public func push(_ path: Path, _ value: WriteValue) async throws(ClientError) -> Key {
        try await answer { push(path, value, $0) }
    }

    /// Removes the value of the place. Returns the number of the commit.
    @discardableResult
    public func remove(_ path: Path) async throws(ClientError) -> Int64 {
        try await answer { remove(path, $0) }
    }

    /// Sets a place to a value computed from its current one; retries up to 25 times in all when another writer was faster. Returns the value that
    /// was set.
    @discardableResult
    public func transaction(_ path: Path, _ update: @escaping @Sendable (Node) -> WriteValue) async throws(ClientError) -> Node {
        try await answer { transaction(path, update, $0) }
    }

    /// Registers an operation that the hub runs when this connection has ended, or cancels it.
    public func onDisconnect(_ leaving: DisconnectOperation) async throws(ClientError) {
        try await answer { onDisconnect(leaving, $0) }
    }

    /// Checks whether the hub answers.
    public func ping() async throws(ClientError) {
        try await answer { ping($0) }
    }

    /// An observer as a sequence. Leaving the loop or cancelling its task ends the observer.
    ///
    /// Events wait in memory until they are consumed. `ended` is not among them: the sequence throws its `ClientError`, and just finishes when the
    /// client was closed.
    public func events(
        of path: Path, _ events: ObserveEvents = .value, query: Query? = nil, maxHz: Double? = nil
    ) -> AsyncThrowingStream<Observation, any Error> {
        AsyncThrowingStream { continuation in
            let id = observe(path, events, query: query, maxHz: maxHz) { observation in
                switch observation {
                case .event, .reset: continuation.yield(observation)
                case .ended(.closed): continuation.finish()
                case .ended(let error): continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { [self] _ in unobserve(id) }
        }
    }

    private func answer<Answer: Sendable>(
        _ ask: (@escaping @Sendable (Result<Answer, ClientError>) -> Void) -> Void
    ) async throws(ClientError) -> Answer {
        let result: Result<Answer, ClientError> = await withCheckedContinuation { continuation in
            ask { continuation.resume(returning: $0) }
        }
        return try result.get()
    }
}
