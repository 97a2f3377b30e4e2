public import JSONTree
internal import WireProtocols

extension HubClient {
    /// The result of a write: the number of its commit.
    public typealias WriteDone = @Sendable (Result<Int64, ClientError>) -> Void

    /// Reads a place once; null when there is nothing.
    public func get(_ path: Path, _ done: @escaping @Sendable (Result<Node, ClientError>) -> Void) {
        perform(.get(path: path)) { done($0.map { $0.value ?? .null }) }
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

    private static func sequence(_ done: WriteDone?) -> (@Sendable (Result<ObserveSuccess, ClientError>) -> Void)? {
        guard let done else { return nil }
        return { done($0.map { $0.seq ?? 0 }) }
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
