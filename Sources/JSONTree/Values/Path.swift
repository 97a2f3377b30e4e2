/// A place in the tree: keys from the root down. The root is the empty path.
public struct Path: Sendable, Hashable, ExpressibleByStringLiteral {
    public var keys: ContiguousArray<Key>

    public static let root = Path()
    public init() { keys = [] }
    public init(_ keys: some Sequence<Key>) { self.keys = ContiguousArray(keys) }

    /// The deepest place that can hold a value (contract §4.1).
    public static let maxDepth = 32

    /// Parses `/a/b`, `a/b` or `/`; repeated and outer slashes collapse (contract §2.1).
    /// - Throws: `PathError` for a segment that is not a valid key, or more than `maxDepth` segments.
    public init(parsing text: String) throws(PathError) {
        var native = text
        let result: Result<ContiguousArray<Key>, PathError> = native.withUTF8 { bytes in
            do throws(PathError) { return .success(try Path.segments(bytes)) } catch { return .failure(error) }
        }
        keys = try result.get()
    }

    /// Parses a path from UTF-8 bytes.
    public init(parsing text: UnsafeBufferPointer<UInt8>) throws(PathError) { keys = try Path.segments(text) }

    /// A path literal in source code; not validated.
    public init(stringLiteral value: String) {
        keys = ContiguousArray(value.split(separator: "/").map { Key(String($0)) })
    }

    static func segments(_ bytes: UnsafeBufferPointer<UInt8>) throws(PathError) -> ContiguousArray<Key> {
        var keys = ContiguousArray<Key>()
        if bytes.isEmpty { return keys }
        var slashes = 0
        for byte in bytes where byte == UInt8(ascii: "/") { slashes &+= 1 }
        keys.reserveCapacity(min(slashes + 1, maxDepth))
        var start = 0
        while start < bytes.count {
            var end = start
            while end < bytes.count, bytes[end] != UInt8(ascii: "/") { end &+= 1 }
            if end > start {
                let segment = UnsafeBufferPointer(rebasing: bytes[start..<end])
                guard Key.isValid(segment) else { throw .invalidKey(String(decoding: segment.prefix(64), as: UTF8.self)) }
                guard keys.count < maxDepth else { throw .tooDeep }
                keys.append(Key(String(decoding: segment, as: UTF8.self)))
            }
            start = end &+ 1
        }
        return keys
    }

    public var isRoot: Bool { keys.isEmpty }
    public var depth: Int { keys.count }
    public var last: Key? { keys.last }
    public var parent: Path { Path(keys.dropLast()) }

    public func appending(_ key: Key) -> Path {
        var path = self
        path.keys.append(key)
        return path
    }

    public func appending(_ other: Path) -> Path {
        var path = self
        path.keys.append(contentsOf: other.keys)
        return path
    }

    /// Whether `other` is this place or lies below it.
    public func contains(_ other: Path) -> Bool {
        guard keys.count <= other.keys.count else { return false }
        for i in keys.indices where keys[i] != other.keys[i] { return false }
        return true
    }

    /// The deepest place that contains both.
    public func common(with other: Path) -> Path {
        let depth = commonDepth(with: other)
        return depth == keys.count ? self : Path(keys.prefix(depth))
    }

    /// The number of leading keys that both share.
    public func commonDepth(with other: Path) -> Int {
        var depth = 0
        while depth < min(keys.count, other.keys.count), keys[depth] == other.keys[depth] { depth += 1 }
        return depth
    }

    /// Approximate bytes of the path in memory: its list of keys and their texts. O(depth)
    public var memoryBytes: Int { keys.reduce(32) { $0 + MemoryLayout<Key>.stride + NodeCost.text($1.text.utf8Count) } }

    /// The rest of this path after its first `depth` keys.
    public func dropping(_ depth: Int) -> Path { Path(keys.dropFirst(depth)) }
}

extension Path: CustomStringConvertible {
    /// `/a/b`, and `/` for the root.
    public var description: String { keys.isEmpty ? "/" : keys.map { "/" + $0.string }.joined() }

    /// `a/b`, and the empty text for the root: the form of server pushes (contract §2.1).
    public var relativeText: String { keys.map(\.string).joined(separator: "/") }

    /// Parses `relativeText`, without validation.
    public init(relative text: String) { self.init(text.split(separator: "/").map { Key(String($0)) }) }
}

extension Path: Comparable {
    public static func < (a: Path, b: Path) -> Bool {
        for i in 0..<min(a.keys.count, b.keys.count) {
            let order = Key.order(a.keys[i], b.keys[i])
            if order != 0 { return order < 0 }
        }
        return a.keys.count < b.keys.count
    }
}

/// Why a text is not a path.
public enum PathError: Error, Equatable {
    /// A segment is empty after trimming, too long, or holds a forbidden character; the text is cut at 64 bytes.
    case invalidKey(String)
    /// More than 32 levels.
    case tooDeep
}
