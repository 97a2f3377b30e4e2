internal import Glibc
internal import JSONTree

/// Tokens without a signature. Only hubs with `--dev` accept them.
public enum DevelopmentToken {
    /// A token (RFC 7519, `alg` "none") for `uid`, as the stock SDKs' emulator mode makes them.
    /// - Parameters:
    ///   - claims: a JSON object of further claims, such as `{"email_verified":true}`; rules see them in `auth.token`.
    ///   - hours: until it expires.
    /// - Throws: `ClaimsError`.
    public static func mint(uid: String, claims: String = "{}", hours: Int = 24) throws(ClaimsError) -> String {
        let members = try members(of: claims)
        let now = Int64(time(nil))
        var payload = JSONWriter()
        payload.raw("{\"sub\":")
        payload.string(uid)
        payload.raw(",\"user_id\":")
        payload.string(uid)
        payload.raw(",\"iat\":")
        payload.int(now)
        payload.raw(",\"auth_time\":")
        payload.int(now)
        payload.raw(",\"exp\":")
        payload.int(now + Int64(hours) * 3600)
        if !members.names.contains("firebase") { payload.raw(",\"firebase\":{\"sign_in_provider\":\"custom\"}") }
        if !members.names.isEmpty {
            payload.raw(",")
            payload.raw(members.text)
        }
        payload.raw("}")
        return Base64.encodeURL("{\"alg\":\"none\",\"typ\":\"JWT\"}".utf8) + "." + Base64.encodeURL(payload.bytes) + "."
    }

    /// Why claims cannot be put into a token.
    public enum ClaimsError: Error, Sendable, Equatable, CustomStringConvertible {
        case notAnObject
        case reserved(String)

        public var description: String {
            switch self {
            case .notAnObject: "Claims are a JSON object, for instance {\"email_verified\":true}."
            case .reserved(let name): "The claim \"\(name)\" is set by the token itself."
            }
        }
    }

    /// The text between the braces of a JSON object, and its member names.
    private static func members(of claims: String) throws(ClaimsError) -> (names: Set<String>, text: [UInt8]) {
        let bytes = Array(claims.utf8)
        let read: (names: Set<String>, inner: Range<Int>)? = bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                var reader = JSONReader(buffer)
                try reader.beginObject()
                let start = reader.offset
                var names: Set<String> = []
                while let name = try reader.nextName() {
                    names.insert(name)
                    try reader.skipValue()
                }
                let end = reader.offset - 1
                try reader.expectEnd()
                return (names, start..<end)
            } catch { return nil }
        }
        guard let read else { throw .notAnObject }
        for name in ["sub", "user_id", "iat", "auth_time", "exp"] where read.names.contains(name) { throw .reserved(name) }
        return (read.names, Array(bytes[read.inner]))
    }
}
