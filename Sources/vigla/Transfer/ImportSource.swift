import Glibc
import JSONTree

/// A JSON file to be imported. It is memory-mapped, and pages are released after reading.
struct ImportSource {
    /// Its name in messages.
    let name: String
    let bytes: UnsafeRawBufferPointer

    /// Ends the program when the file cannot be read. Standard input is first copied to an unnamed file, unless it is a file.
    init(_ file: String) {
        name = file == "-" ? "standard input" : file
        var descriptor = file == "-" ? 0 : open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { fail("\(name): \(FileFault(errno))") }
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { fail("\(name): \(FileFault(errno))") }
        if info.st_mode & S_IFMT != S_IFREG {
            descriptor = Self.copy(descriptor, name)
            guard fstat(descriptor, &info) == 0 else { fail("\(name): \(FileFault(errno))") }
        }
        let size = Int(info.st_size)
        guard size > 0 else { fail("\(name) is empty; an empty tree is: null") }
        guard let base = mmap(nil, size, PROT_READ, MAP_PRIVATE, descriptor, 0), base != MAP_FAILED else {
            fail("\(name): \(FileFault(errno))")
        }
        close(descriptor)
        bytes = UnsafeRawBufferPointer(start: base, count: size)
    }

    private static func copy(_ source: Int32, _ name: String) -> Int32 {
        var template = Array("\(Environment["TMPDIR"] ?? "/tmp")/vigla-import-XXXXXX".utf8CString)
        let copy = mkstemp(&template)
        guard copy >= 0 else { fail("a temporary file for \(name): \(FileFault(errno))") }
        unlink(template)
        var chunk = [UInt8](repeating: 0, count: 256 << 10)
        while true {
            let count = Glibc.read(source, &chunk, chunk.count)
            if count == 0 { return copy }
            if count < 0 {
                if errno == EINTR { continue }
                fail("\(name): \(FileFault(errno))")
            }
            var sent = 0
            while sent < count {
                let written = chunk.withUnsafeBytes { Glibc.write(copy, $0.baseAddress.map { $0 + sent }, count - sent) }
                if written > 0 { sent += written } else if errno != EINTR { fail("a temporary file for \(name): \(FileFault(errno))") }
            }
        }
    }

    /// Reads the whole file. Ends the program for an invalid tree, naming line, column and byte.
    /// - Parameter depth: levels above the place, which count towards the limit.
    func read(depth: Int) -> Node {
        var reader = TreeReader(bytes, depth: depth)
        do throws(JSONError) { return try reader.read() } catch {
            fail("\(name):\(error.place(in: bytes)): \(error) Nothing was changed.")
        }
    }
}

/// Parses a tree from mapped bytes with progress. It does what `JSONReader.writeValue` does, but member by
/// member in the upper levels, so that pages can be released after reading.
struct TreeReader {
    /// Number of levels that are read member by member.
    private static let levels = 3
    private static let releasedBytes = 16 << 20

    private let bytes: UnsafeRawBufferPointer
    private let depth: Int
    private var reader: JSONReader
    private var released = 0
    private var progress = ProgressLine("import")

    init(_ bytes: UnsafeRawBufferPointer, depth: Int) {
        self.bytes = bytes
        self.depth = depth
        reader = JSONReader(bytes)
    }

    mutating func read() throws(JSONError) -> Node {
        defer { progress.end() }
        let node = try value(level: 0)
        try reader.expectEnd()
        return node
    }

    private mutating func value(level: Int) throws(JSONError) -> Node {
        releasePages()
        guard level < Self.levels, depth + level < Path.maxDepth, try reader.peek() == .object else { return try whole(level) }
        let start = reader
        try reader.beginObject()
        var children: [(Key, Node)] = []
        var priority = Node.null
        while let name = try reader.nextName() {
            if name == ".priority" {
                let offset = reader.offset
                let value = try reader.writeValue()
                guard value.deferred.isEmpty, value.node.canBePriority else { throw .invalidPriority(offset: offset) }
                priority = value.node
                continue
            }
            if name.utf8.first == UInt8(ascii: ".") {
                // A leaf with a priority, or an unknown form: small either way.
                reader = start
                return try whole(level)
            }
            let key = Key(name)
            guard key.isValid else { throw .invalidKey(String(decoding: name.utf8.prefix(64), as: UTF8.self), offset: reader.offset) }
            children.append((key, try value(level: level + 1)))
        }
        return .object(children, priority: priority)
    }

    private mutating func whole(_ level: Int) throws(JSONError) -> Node {
        let offset = reader.offset
        let value = try reader.writeValue(depth: depth + level)
        // Server values are computed for writes of clients only.
        guard value.deferred.isEmpty else { throw .unknownServerValue(offset: offset) }
        return value.node
    }

    private mutating func releasePages() {
        guard reader.offset - released >= Self.releasedBytes else { return }
        progress.show(reader.offset >> 20, of: bytes.count >> 20, unit: "MiB")
        let start = released
        released = reader.offset & ~(Self.releasedBytes - 1)
        // Released pages are read again when needed; an error here only costs memory.
        if let base = bytes.baseAddress { madvise(UnsafeMutableRawPointer(mutating: base + start), released - start, MADV_DONTNEED) }
    }
}
