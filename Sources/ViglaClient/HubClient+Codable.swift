internal import FoundationEssentials
public import JSONTree
internal import WireProtocols

/// Values of a program's own types, as `JSONEncoder` and `JSONDecoder` write and read them.
///
///     struct Fix: Codable { var latitude: Double, longitude: Double }
///     try await client.set("/fix", encoding: Fix(latitude: 37.9553, longitude: 23.7021))
///     for try await fix in client.values(of: "/fix", as: Fix.self) { … }
extension HubClient {
    /// Reads a place once; nil when it is empty.
    /// - Throws: `ClientError`; `DecodingError` if the place has a value of another form.
    public func get<Value: Decodable>(_ path: Path, as type: Value.Type) async throws -> Value? {
        try Self.decode(type, try await get(path))
    }

    /// Replaces the value of the place. Returns the number of the commit.
    /// - Throws: `ClientError`, `EncodingError`; `JSONError` for values that a place cannot hold, such as a name with a slash.
    @discardableResult
    public func set(_ path: Path, encoding value: some Encodable) async throws -> Int64 {
        try await set(path, Self.encode(value))
    }

    /// Adds a child. Returns its key.
    /// - Throws: as `set(_:encoding:)`.
    @discardableResult
    public func push(_ path: Path, encoding value: some Encodable) async throws -> Key {
        try await push(path, Self.encode(value))
    }

    /// The values of a place, nil when it is empty: the current one, then each change; after a reconnect the new current one, if it
    /// differs.
    /// - Throws: `ClientError`, `DecodingError`.
    public func values<Value: Decodable & Sendable>(
        of path: Path, as type: Value.Type, maxHz: Double? = nil
    ) -> AsyncThrowingStream<Value?, any Error> {
        AsyncThrowingStream { continuation in
            let id = observe(path, .value, maxHz: maxHz) { observation in
                switch observation {
                case .event(.value(let node), _):
                    do { continuation.yield(try Self.decode(type, node)) } catch { continuation.finish(throwing: error) }
                case .event, .reset: break
                case .ended(.closed): continuation.finish()
                case .ended(let error): continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { [self] _ in unobserve(id) }
        }
    }

    private static func decode<Value: Decodable>(_ type: Value.Type, _ node: Node) throws -> Value? {
        node.exists ? try JSONDecoder().decode(type, from: Data(node.json.utf8)) : nil
    }

    private static func encode(_ value: some Encodable) throws -> WriteValue {
        try WriteValue(json: String(decoding: try JSONEncoder().encode(value), as: UTF8.self))
    }
}
