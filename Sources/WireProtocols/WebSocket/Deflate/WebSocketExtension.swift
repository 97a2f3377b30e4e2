import HTTPTypes

/// One element of Sec-WebSocket-Extensions (RFC 6455 §9.1):
///
/// ```
/// extension-list = 1#( token *( ";" token [ "=" ( token / quoted-string ) ] ) )
/// ```
struct WebSocketExtension: Hashable {
    struct Parameter: Hashable {
        var name: String
        /// Nil without `=`. Stored without quotes.
        var value: String?
    }

    var name: String
    var parameters: [Parameter] = []

    /// All elements of the fields in order, which is the order of preference. Nil if one violates the grammar: then the connection must be failed
    /// (§9.1).
    static func list(_ fields: HTTPFields) -> [WebSocketExtension]? {
        var list: [WebSocketExtension] = []
        for value in fields[values: .secWebSocketExtensions] {
            var reader = Reader(bytes: Array(value.utf8))
            guard let elements = reader.list() else { return nil }
            list += elements
        }
        return list
    }

    /// The element as text; values are tokens, so they need no quotes.
    var text: String {
        parameters.reduce(name) { text, parameter in "\(text); \(parameter.name)" + (parameter.value.map { "=\($0)" } ?? "") }
    }

    private struct Reader {
        let bytes: [UInt8]
        var at = 0

        mutating func list() -> [WebSocketExtension]? {
            var list: [WebSocketExtension] = []
            repeat {
                skipBlanks()
                // A list may have empty elements (RFC 9110 §5.6.1.2).
                if at == bytes.count || bytes[at] == UInt8(ascii: ",") { continue }
                guard let element = element() else { return nil }
                list.append(element)
            } while consume(",")
            return at == bytes.count ? list : nil
        }

        private mutating func element() -> WebSocketExtension? {
            guard let name = token() else { return nil }
            var element = WebSocketExtension(name: name)
            skipBlanks()
            while consume(";") {
                skipBlanks()
                guard let name = token() else { return nil }
                var parameter = Parameter(name: name)
                skipBlanks()
                if consume("=") {
                    skipBlanks()
                    guard let value = at < bytes.count && bytes[at] == UInt8(ascii: "\"") ? quoted() : token() else { return nil }
                    parameter.value = value
                    skipBlanks()
                }
                element.parameters.append(parameter)
            }
            return element
        }

        private mutating func token() -> String? {
            let start = at
            while at < bytes.count, bytes[at].isToken { at += 1 }
            return at > start ? String(decoding: bytes[start..<at], as: UTF8.self) : nil
        }

        /// "the value after quoted-string unescaping MUST conform to the 'token' ABNF"
        private mutating func quoted() -> String? {
            at += 1
            var value: [UInt8] = []
            while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
                if bytes[at] == UInt8(ascii: "\\") { at += 1 }
                guard at < bytes.count, bytes[at].isToken else { return nil }
                value.append(bytes[at])
                at += 1
            }
            guard consume("\""), !value.isEmpty else { return nil }
            return String(decoding: value, as: UTF8.self)
        }

        private mutating func skipBlanks() {
            while at < bytes.count, bytes[at].isBlank { at += 1 }
        }

        private mutating func consume(_ sign: Unicode.Scalar) -> Bool {
            guard at < bytes.count, bytes[at] == UInt8(ascii: sign) else { return false }
            at += 1
            return true
        }
    }
}
