import JSONTree

/// JSON text of one value, exactly as sent.
package struct RawJSON {
    package let text: String

    package init(text: String) { self.text = text }

    /// The text of a string value.
    package var string: String { if case .string(let value)? = try? Node(json: text) { value.string } else { "" } }
    package func object() throws -> RawObject { try RawObject(text) }
}

/// The members of an object as sent: names may be paths, values may be null.
package struct RawObject {
    package private(set) var members: [String: RawJSON] = [:]

    package init(_ text: String) throws {
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

    package subscript(name: String) -> RawJSON? { members[name] }
}
