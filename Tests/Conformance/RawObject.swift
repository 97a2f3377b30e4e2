import JSONTree

/// JSON text of one value, as it was sent.
struct RawJSON {
    let text: String
    /// The text of a string value.
    var string: String { if case .string(let value)? = try? Node(json: text) { value.string } else { "" } }
    func object() throws -> RawObject { try RawObject(text) }
}

/// The members of an object as they were sent: names may be paths, values may be null.
struct RawObject {
    private var members: [String: RawJSON] = [:]

    init(_ text: String) throws {
        let bytes = Array(text.utf8)
        try bytes.withUnsafeBytes { buffer in
            var reader = JSONReader(buffer)
            try reader.beginObject()
            while let name = try reader.nextName() {
                let range = try reader.skipValue()
                members[name] = RawJSON(text: String(decoding: bytes[range], as: UTF8.self))
            }
        }
    }

    subscript(name: String) -> RawJSON? { members[name] }
}
