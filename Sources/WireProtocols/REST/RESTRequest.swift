public import JSONTree
public import LiveQueries

/// A parsed request to `/<path>.json` (contract §7.1–§7.3). Its credential is not checked here.
public struct RESTRequest: Sendable {
    public enum Method: Sendable, Hashable {
        case get, put, patch, post, delete
    }

    public var method: Method
    /// HEAD: like GET, without the body.
    public var isHead = false
    public var path: Path
    /// The priority of the place, for `/path/.priority.json`.
    public var part = TreeWrite.Part.node
    /// The selected children; nil for the whole place.
    public var query: Query?
    public var shallow: Shallow?
    public var form = NodeEncoder.Form()
    /// `sizeUpTo=N`: a read returns the approximate size of its content in bytes, or `null` if that exceeds N.
    public var sizeUpTo: Int?
    /// `count=true`: a read returns, and a stream sends, the number of children.
    public var isCount = false
    /// `explain=true`: a read returns how the children of its query are found.
    public var explains = false
    /// `print=silent`: 204 without a body.
    public var isSilent = false
    /// `derive=false`: an administrator's write is an import, for which the rules add no consequences.
    public var isImport = false
    /// JSONP: the function to call.
    public var callback: String?
    /// The file name under which a browser saves the response.
    public var download: String?
    /// The most time a read may take. Default and maximum 15 minutes.
    public var timeoutMs = RESTRequest.longestTimeoutMs
    /// Nil means the setting `defaultWriteSizeLimit`.
    public var writeSize: WriteSize?
    public var credential: String?
    /// The `auth` value for evaluating the rules on behalf of an administrator; `.some(.null)` for a signed-out client.
    public var override: Node?
    /// `X-Firebase-ETag: true`
    public var wantsETag = false
    public var ifMatch: ETag?
    public var ifNoneMatch: ETag?
    /// GET with `Accept: text/event-stream`.
    public var isStream = false

    /// Whether children are selected in an order other than by key. Then the result is an object, whatever its keys are.
    public var isOrdered: Bool { query.map { $0.tree.orderedBy != .key } ?? false }

    static let longestTimeoutMs = 15 * 60 * 1000

    /// Only the children's names. Limits are by key, as the SDKs' command-line tool requests.
    public struct Shallow: Sendable, Hashable {
        public var limit: Int?
        public var keepsLast = false
        /// Only children after this key.
        public var startAfter: Key?
    }

    /// `writeSizeLimit`: the time that a write may take, as the bytes that the hub writes in it at 10 MB/s. Removals always pass.
    public enum WriteSize: String, Sendable, CaseIterable {
        case tiny, small, medium, large, unlimited

        /// Bytes of the request's body.
        public var bytes: Int {
            switch self {
            case .tiny: 10 << 20
            case .small: 100 << 20
            case .medium, .large, .unlimited: .max
            }
        }
    }

    /// The ETag of a place's content: its hash, or `null_etag` if empty (contract §7.3).
    public struct ETag: Sendable, Hashable {
        /// Empty for a missing node.
        public var hash: String

        public init(hash: String) { self.hash = hash }

        /// Parses a field value; quotes are removed.
        init(field: String) {
            var text = Substring(field.trimmed)
            if text.count >= 2, text.first == "\"", text.last == "\"" { text = text.dropFirst().dropLast() }
            hash = text == "null_etag" ? "" : text.isEmpty ? "?" : String(text)
        }

        public var text: String { hash.isEmpty ? "null_etag" : hash }
    }
}

extension String {
    fileprivate var trimmed: Substring {
        let start = firstIndex { $0 != " " && $0 != "\t" } ?? endIndex
        let end = lastIndex { $0 != " " && $0 != "\t" }.map { index(after: $0) } ?? endIndex
        return self[start..<max(start, end)]
    }
}
