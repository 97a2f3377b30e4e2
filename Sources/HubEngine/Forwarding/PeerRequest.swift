import Journal
import JSONTree

/// A request that a follower forwards to the writer, with the facts that the writer needs about the client. Its writes have the form in which
/// journals store them.
struct PeerRequest {
    enum Work {
        case write([TreeWrite], Condition?)
        /// A write or push of an exchange, with the writes that it makes.
        case exchange(Exchange, [TreeWrite])
        case onDisconnect([TreeWrite])
        case cancelOnDisconnect(Path)
        /// A write by the hub itself.
        case system([TreeWrite], SystemCause)
        /// Only sets the client's identity.
        case identify
        /// Ends a session: the writer applies its onDisconnect writes, unless it already has.
        case end(session: String)
    }

    /// The client's properties that rules and budgets use.
    struct Facts: Equatable {
        /// The session name under which the journal stores the client's onDisconnect writes.
        var session: String
        var identity: Identity
        var address: String?
    }

    /// Ascending and unique among all requests of the hub.
    var number: UInt64
    /// Unique among all clients of the hub.
    var client: UInt64
    var facts: Facts
    var work: Work
    /// Size in bytes as received.
    var bytes = 0

    private enum Flag {
        static let isAdmin: UInt8 = 1
        static let hasAddress: UInt8 = 2
        static let hasCondition: UInt8 = 4
        static let wantsContent: UInt8 = 8
        static let isImport: UInt8 = 16
    }

    // MARK: Encoding

    /// Preceded by its length. O(bytes of its values)
    var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(littleEndian: UInt32(0))
        bytes.append(littleEndian: number)
        bytes.append(littleEndian: client)
        var (kind, flags) = (UInt8(0), UInt8(0))
        if facts.identity.isAdmin { flags |= Flag.isAdmin }
        if facts.address != nil { flags |= Flag.hasAddress }
        switch work {
        case .write(_, let condition): if condition != nil { flags |= Flag.hasCondition }
        case .exchange(let exchange, _):
            kind = 1
            if exchange.ifHash != nil { flags |= Flag.hasCondition }
            if exchange.wantsContent { flags |= Flag.wantsContent }
            if exchange.isImport { flags |= Flag.isImport }
        case .onDisconnect: kind = 2
        case .cancelOnDisconnect: kind = 3
        case .system: kind = 4
        case .identify: kind = 5
        case .end: kind = 6
        }
        bytes.append(kind)
        bytes.append(flags)
        bytes.append(counted: facts.session.utf8)
        bytes.append(counted: facts.identity.auth.isNull ? [] : Self.json(facts.identity.auth))
        if let address = facts.address { bytes.append(counted: address.utf8) }
        switch work {
        case .write(let writes, let condition):
            if let condition { Self.encode(condition.path, condition.hash, &bytes) }
            Self.encode(writes, &bytes)
        case .exchange(let exchange, let writes):
            Self.encode(exchange.path, exchange.ifHash ?? "", &bytes)
            Self.encode(writes, &bytes)
        case .onDisconnect(let writes): Self.encode(writes, &bytes)
        case .cancelOnDisconnect(let path): Self.encode(path, "", &bytes)
        case .system(let writes, let cause):
            bytes.append(counted: cause.rawValue.utf8)
            Self.encode(writes, &bytes)
        case .identify: break
        case .end(let session): bytes.append(counted: session.utf8)
        }
        let length = UInt32(bytes.count - 4)
        bytes.withUnsafeMutableBytes { $0.storeBytes(of: length.littleEndian, toByteOffset: 0, as: UInt32.self) }
        return bytes
    }

    private static func json(_ node: Node) -> [UInt8] {
        var writer = JSONWriter()
        writer.node(node)
        return writer.bytes
    }

    private static func encode(_ path: Path, _ text: String, _ bytes: inout [UInt8]) {
        var writer = JSONWriter(reservingCapacity: 64)
        writer.path(path.keys)
        bytes.append(counted: writer.bytes)
        bytes.append(counted: text.utf8)
    }

    private static func encode(_ writes: [TreeWrite], _ bytes: inout [UInt8]) {
        var writer = JSONWriter(reservingCapacity: 128)
        for write in writes { writer.entry(.keep(session: "", write)) }
        writer.raw(writer.bytes.isEmpty ? "[]" : "]")
        bytes.append(counted: writer.bytes)
    }

    init(_ number: UInt64, of client: UInt64, _ facts: Facts, _ work: Work) {
        (self.number, self.client, self.facts, self.work) = (number, client, facts, work)
    }
}

// MARK: Decoding

extension PeerRequest {
    /// Decodes the requests of a message, each preceded by its length. Nil for bytes that no hub encodes. O(bytes)
    static func all(in bytes: [UInt8]) -> [PeerRequest]? {
        bytes.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            var requests: [PeerRequest] = []
            while !reader.isAtEnd {
                guard let bytes = reader.counted(), var request = PeerRequest(bytes) else { return nil }
                request.bytes = bytes.count
                requests.append(request)
            }
            return requests
        }
    }

    init?(_ bytes: UnsafeRawBufferPointer) {
        var reader = ByteReader(bytes)
        guard let number = reader.integer(UInt64.self), let client = reader.integer(UInt64.self), let kind = reader.integer(UInt8.self),
            let flags = reader.integer(UInt8.self), let session = reader.text(), let claims = reader.counted()
        else { return nil }
        var auth = Node.null
        if !claims.isEmpty {
            guard let read = try? Self.read(claims, { reader throws(JSONError) in try reader.claims() }) else { return nil }
            auth = read
        }
        var address: String?
        if flags & Flag.hasAddress != 0 {
            guard let text = reader.text() else { return nil }
            address = text
        }
        let isAdmin = flags & Flag.isAdmin != 0
        let facts = Facts(session: session, identity: Identity(auth: auth, isAdmin: isAdmin), address: address)
        guard let work = Self.work(kind, flags, &reader), reader.isAtEnd else { return nil }
        self.init(number, of: client, facts, work)
    }

    private static func work(_ kind: UInt8, _ flags: UInt8, _ reader: inout ByteReader) -> Work? {
        let hasCondition = flags & Flag.hasCondition != 0
        switch kind {
        case 0:
            var condition: Condition?
            if hasCondition {
                guard let (path, hash) = pathAndText(&reader) else { return nil }
                condition = Condition(path, hash: hash)
            }
            return writes(&reader).map { .write($0, condition) }
        case 1:
            guard let (path, hash) = pathAndText(&reader), let writes = writes(&reader) else { return nil }
            var exchange = Exchange(
                path, .write(writes), ifHash: hasCondition ? hash : nil, wantsContent: flags & Flag.wantsContent != 0)
            exchange.isImport = flags & Flag.isImport != 0
            return .exchange(exchange, writes)
        case 2: return writes(&reader).map { .onDisconnect($0) }
        case 3: return pathAndText(&reader).map { .cancelOnDisconnect($0.0) }
        case 4:
            guard let name = reader.text(), let cause = SystemCause(rawValue: name) else { return nil }
            return writes(&reader).map { .system($0, cause) }
        case 5: return .identify
        case 6: return reader.text().map { .end(session: $0) }
        default: return nil
        }
    }

    private static func read<Value>(
        _ bytes: UnsafeRawBufferPointer, _ body: (inout JSONReader) throws(JSONError) -> Value
    ) throws(JSONError) -> Value {
        var reader = JSONReader(bytes)
        let value = try body(&reader)
        try reader.expectEnd()
        return value
    }

    private static func pathAndText(_ reader: inout ByteReader) -> (Path, String)? {
        guard let bytes = reader.counted(), let text = reader.text() else { return nil }
        guard let path = try? read(bytes, { reader throws(JSONError) in try reader.storedPath() }) else { return nil }
        return (path, text)
    }

    private static func writes(_ reader: inout ByteReader) -> [TreeWrite]? {
        guard let bytes = reader.counted(), let operations = try? [JournalOperation](entries: bytes) else { return nil }
        var writes: [TreeWrite] = []
        writes.reserveCapacity(operations.count)
        for operation in operations {
            guard case .pending(.keep(_, let write)) = operation else { return nil }
            writes.append(write)
        }
        return writes
    }
}
