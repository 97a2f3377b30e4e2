package import JSONTree

/// The target of a write, parsed from its text.
struct TreePlace {
    var path: Path
    var part: TreeWrite.Part

    init(path: Path, part: TreeWrite.Part) {
        self.path = path
        self.part = part
    }

    /// Parses a path whose last segment may be `.priority`.
    init(parsing text: UnsafeBufferPointer<UInt8>) throws(PathError) {
        let suffix: StaticString = ".priority"
        let parent = text.dropLast(suffix.utf8CodeUnitCount)
        let end = UnsafeBufferPointer(start: suffix.utf8Start, count: suffix.utf8CodeUnitCount)
        guard text.last == UInt8(ascii: "y"), text[parent.endIndex...].elementsEqual(end) else {
            path = try Path(parsing: text)
            part = .node
            return
        }
        guard parent.isEmpty || parent.last == UInt8(ascii: "/") else {
            throw .invalidKey(String(String(decoding: text, as: UTF8.self).prefix(64)))
        }
        path = try Path(parsing: UnsafeBufferPointer(rebasing: parent))
        part = .priority
    }

    init(parsing text: String) throws(PathError) {
        var text = text
        let parsed: Result<TreePlace, PathError> = text.withUTF8 { bytes in
            do throws(PathError) { return .success(try TreePlace(parsing: bytes)) } catch { return .failure(error) }
        }
        self = try parsed.get()
    }

    /// The place with `.priority` as a segment, so that places can be compared.
    var comparable: Path { part == .priority ? path.appending(Key(".priority")) : path }
}

extension TreeWrite {
    /// Whether the rules could permit a write of the place; otherwise the fault is recorded and the value skipped.
    static func isPermitted(
        _ path: Path, _ reader: inout JSONReader, _ limits: TreeWriteLimits, _ fault: inout RequestFault?
    ) throws(JSONError) -> Bool {
        guard let permits = limits.permits, !permits(path) else { return true }
        fault = fault ?? .denied
        try reader.skipValue()
        return false
    }

    /// Parses the data of a write to `place`. A refusal is recorded in `fault`, and the value skipped.
    static func value(
        _ reader: inout JSONReader, at place: TreePlace, depth: Int, _ limits: TreeWriteLimits,
        _ fault: inout RequestFault?
    ) throws(JSONError) -> WriteValue? {
        let read = try reader.optional(&fault) { reader throws(JSONError) in
            let start = reader.offset
            let value = try reader.writeValue(depth: depth, maxStringBytes: limits.stringBytes, allowance: limits.allowance)
            if depth > Path.maxDepth { throw .tooDeep(offset: start) }
            if place.part == .priority {
                switch value.node {
                case .null, .int, .double, .string: break
                default: throw .invalidPriority(offset: start)
                }
            }
            return value
        }
        return read
    }

    /// Parses the object of an update: member names are paths relative to `base` (contract §6.1). Refuses invalid paths, the empty path, and
    /// places that contain one another.
    static func entries(
        _ reader: inout JSONReader, base: Path, _ limits: TreeWriteLimits, _ fault: inout RequestFault?
    ) throws(JSONError) -> [TreeWrite] {
        guard try reader.peek() == .object else {
            fault = fault ?? .notAnObject
            try reader.skipValue()
            return []
        }
        var writes: [TreeWrite] = []
        try reader.beginObject()
        while let name = try reader.nextName() {
            let place: TreePlace
            do throws(PathError) {
                place = try TreePlace(parsing: name)
                if place.path.isRoot && place.part == .node { throw .invalidKey(name) }
            } catch {
                fault = fault ?? .path(error)
                try reader.skipValue()
                continue
            }
            if fault == nil {
                if limits.allowance?.charge(write: place.path,
                    named: name) == false { fault = .data(.overBudget(offset: reader.nameOffset)) }
                if let permits = limits.permits, !permits(base.appending(place.path)) { fault = .denied }
            }
            // A refused request needs no values.
            if fault?.endsReading == true {
                try reader.skipValue()
                continue
            }
            let depth = base.depth + place.path.depth
            guard let value = try value(&reader, at: place, depth: depth, limits, &fault) else { continue }
            writes.append(TreeWrite(place.path, part: place.part, value))
        }
        if fault == nil, let (ancestor, descendant) = overlap(writes) { fault = .overlap(ancestor, descendant) }
        return writes
    }

    /// Two places of which the first contains the second. In path order a place directly precedes those that it contains.
    private static func overlap(_ writes: [TreeWrite]) -> (Path, Path)? {
        if writes.count < 2 { return nil }
        let places = writes.map { $0.part == .priority ? $0.path.appending(Key(".priority")) : $0.path }.sorted()
        for (place, next) in zip(places, places.dropFirst()) where place.contains(next) { return (place, next) }
        return nil
    }
}

/// Limits of one written value; the tree's own limits on keys and depth always hold (contract §4.1).
public struct TreeWriteLimits: Sendable {
    /// Longest string in bytes of UTF-8. Default 10 MB.
    package var stringBytes = 10_485_760
    /// Bounds the memory of one request's values; nil for no bound. Exceeding it refuses the request as too big.
    package var allowance: NodeAllowance?
    /// Whether the rules could permit a write of a place; called before its value is parsed. Nil permits all. A refused place gets a permission
    /// error, unless an earlier fault was found in the text.
    package var permits: (@Sendable (Path) -> Bool)?

    public init() {}
}
