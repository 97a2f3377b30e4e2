import Glibc
import Synchronization

/// The UTC offsets of a time zone, read from the machine's time-zone files (TZif, RFC 8536).
final class TimeZoneTable: Sendable {
    let name: String
    /// The times at which the offset changes, in seconds since 1970, ascending; each with the new offset in seconds.
    private let changes: [(at: Int64, offset: Int64)]
    /// The offset before the first change.
    private let first: Int64
    /// The rule for times after the last change; nil if the last offset stays.
    private let rule: TimeZoneRule?

    private static let folders = ["/usr/share/zoneinfo/", "/usr/lib/zoneinfo/", "/usr/share/lib/zoneinfo/", "/etc/zoneinfo/"]
    /// Longest name, and largest file.
    private static let (nameBytes, fileBytes) = (64, 262_144)
    private static let known = Mutex<[String: TimeZoneTable]>([:])

    /// The zone with a name such as `Europe/Athens`; nil if this machine has no file for it. Each name is read once.
    static func named(_ name: String) -> TimeZoneTable? {
        guard isName(name) else { return nil }
        if let table = known.withLock({ $0[name] }) { return table }
        guard name == "UTC" || present.contains(name) else { return nil }
        let table = folders.lazy.compactMap { contents($0 + name).flatMap { TimeZoneTable(name, $0) } }.first
        guard let table = table ?? (name == "UTC" ? TimeZoneTable() : nil) else { return nil }
        known.withLock { $0[name] = table }
        return table
    }

    /// The names of all files in the folders, listed once: clients may send any number of names that no file has.
    private static let present: Set<String> = {
        var found: Set<String> = []
        func list(_ folder: String, _ prefix: String, _ depth: Int) {
            guard depth < 4, let entries = opendir(folder + prefix) else { return }
            defer { closedir(entries) }
            while let entry = readdir(entries) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: Int(NAME_MAX) + 1) { String(cString: $0) }
                }
                if name.hasPrefix(".") { continue }
                if entry.pointee.d_type == UInt8(DT_DIR) {
                    list(folder, prefix + name + "/", depth + 1)
                } else {
                    found.insert(prefix + name)
                }
            }
        }
        for folder in folders { list(folder, "", 0) }
        return found
    }()

    /// Allows only segments of letters, digits, `_`, `+` and `-`, so that no name leads out of the folders.
    private static func isName(_ name: String) -> Bool {
        name.utf8.count <= nameBytes
            && name.split(separator: "/", omittingEmptySubsequences: false).allSatisfy { segment in
                !segment.isEmpty
                    && segment.utf8.allSatisfy { byte in
                        (byte | 0x20 >= UInt8(ascii: "a") && byte | 0x20 <= UInt8(ascii: "z")) || "0123456789_+-".utf8.contains(byte)
                    }
            }
    }

    private static func contents(_ path: String) -> [UInt8]? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var info = stat()
        guard fstat(file, &info) == 0, info.st_mode & S_IFMT == S_IFREG, info.st_size <= fileBytes else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(info.st_size))
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { read(file, $0.baseAddress.map { $0 + count }, $0.count - count) }
            if got <= 0 { break }
            count += got
        }
        return count == bytes.count ? bytes : nil
    }

    /// UTC.
    private init() { (name, changes, first, rule) = ("UTC", [], 0, nil) }

    /// Parses a file's contents; nil unless it is a TZif file of version 2 or later.
    init?(_ name: String, _ bytes: [UInt8]) {
        /// A big-endian number.
        func number(_ at: Int, _ count: Int) -> Int64? {
            guard at >= 0, at + count <= bytes.count else { return nil }
            var value: UInt64 = 0
            for byte in bytes[at..<at + count] { value = value << 8 | UInt64(byte) }
            return count == 4 ? Int64(Int32(truncatingIfNeeded: value)) : Int64(bitPattern: value)
        }
        /// The counts in a header: of UT flags, standard flags, leap seconds, changes, types, characters.
        func counts(_ at: Int) -> [Int]? {
            guard at + 44 <= bytes.count, bytes[at..<at + 4].elementsEqual("TZif".utf8) else { return nil }
            let counts = (0..<6).compactMap { number(at + 20 + $0 * 4, 4).map(Int.init) }
            return counts.allSatisfy { (0...bytes.count).contains($0) } ? counts : nil
        }
        guard bytes.count > 44, bytes[4] >= UInt8(ascii: "2"), let old = counts(0) else { return nil }
        // The first part has 32-bit times; the second begins after it.
        let start = 44 + old[3] * 5 + old[4] * 6 + old[5] + old[2] * 8 + old[1] + old[0]
        guard let count = counts(start), count[4] > 0 else { return nil }
        let times = start + 44
        let kinds = times + count[3] * 8
        let types = kinds + count[3]
        let end = types + count[4] * 6 + count[5] + count[2] * 12 + count[1] + count[0]
        guard end < bytes.count, bytes[end] == UInt8(ascii: "\n"), let first = number(types, 4) else { return nil }
        var changes: [(at: Int64, offset: Int64)] = []
        for i in 0..<count[3] {
            let kind = Int(bytes[kinds + i])
            guard kind < count[4], let at = number(times + i * 8, 8), let offset = number(types + kind * 6, 4) else { return nil }
            if let last = changes.last, last.at >= at { return nil }
            changes.append((at, offset))
        }
        let footer = bytes[(end + 1)...].prefix { $0 != UInt8(ascii: "\n") }
        (self.name, self.changes, self.first) = (name, changes, first)
        rule = TimeZoneRule(String(decoding: footer, as: UTF8.self))
    }

    /// Seconds to add to UTC at a time in seconds since 1970. O(log changes)
    func offset(at seconds: Int64) -> Int64 {
        var (low, high) = (0, changes.count)
        while low < high {
            let middle = (low + high) / 2
            if changes[middle].at <= seconds { low = middle + 1 } else { high = middle }
        }
        if low == changes.count, let rule { return rule.offset(at: seconds) }
        return low == 0 ? first : changes[low - 1].offset
    }

    /// The day in this zone at a time in ms since 1970; nil outside the years 0 to 9999.
    func day(_ ms: Double) -> String? {
        guard ms.magnitude < 4e14 else { return nil }
        let seconds = Int64((ms / 1000).rounded(.down))
        return CivilDay.text(CivilDay.floored(seconds + offset(at: seconds), CivilDay.secondsPerDay))
    }
}
