public import JSONTree
public import LiveQueries

/// A parsed request to `/<path>.json` (contract §7.1–§7.3). Its credential is not checked here.
public struct RESTRequest: Sendable {
    public enum Method: Sendable, Hashable {
        case get, put, patch, post, delete
    }

    public var method: Method
    /// HEAD: answered as GET, without the body.
    public var isHead = false
    public var path: Path
    /// The priority of the place, for `/path/.priority.json`.
    public var part = TreeWrite.Part.node
    /// Nil for the whole place.
    public var query: TreeQuery?
    /// The query with the conditions of `where=` and the circle of `near=`; nil where it has neither. `query` is its order, range and
    /// limit.
    public var live: LiveQuery?
    public var shallow: Shallow?
    public var form = NodeEncoder.Form()
    /// `sizeUpTo=N`: a read is answered with about the bytes that its content would have, `null` when they are more than N.
    public var sizeUpTo: Int?
    /// `count=true`: a read is answered, and a stream told, how many children there are.
    public var isCount = false
    /// `explain=true`: a read is answered with from where the children of its query are looked for.
    public var explains = false
    /// `print=silent`: 204 without a body.
    public var isSilent = false
    /// `derive=false`: an administrator's write is an import, to which the rules add nothing.
    public var isImport = false
    /// JSONP: the function to call.
    public var callback: String?
    /// The file name under which a browser saves the response.
    public var download: String?
    /// How long a read may take. Default and at most 15 minutes.
    public var timeoutMs = RESTRequest.longestTimeoutMs
    /// Nil leaves it to the setting `defaultWriteSizeLimit`.
    public var writeSize: WriteSize?
    public var credential: String?
    /// The `auth` value that an administrator's rules are evaluated with; `.some(.null)` for a signed-out client.
    public var override: Node?
    /// `X-Firebase-ETag: true`
    public var wantsETag = false
    public var ifMatch: ETag?
    public var ifNoneMatch: ETag?
    /// GET with `Accept: text/event-stream`.
    public var isStream = false

    /// Whether children are selected in another order than by key. They come as an object then, whatever their keys are.
    public var isOrdered: Bool { query.map { $0.orderedBy != .key } ?? false }

    static let longestTimeoutMs = 15 * 60 * 1000

    /// Each child is only named. Limits are by key (the command-line tool of the SDKs asks so).
    public struct Shallow: Sendable, Hashable {
        public var limit: Int?
        public var keepsLast = false
        /// Only children behind this key.
        public var startAfter: Key?
    }

    /// `writeSizeLimit`: the time that a write may take, as the bytes that the hub writes in that time at 10 MB/s. Removals always pass.
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

    /// The ETag of a place's content: its hash, `null_etag` for no content (contract §7.3).
    public struct ETag: Sendable, Hashable {
        /// Empty for nothing.
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
