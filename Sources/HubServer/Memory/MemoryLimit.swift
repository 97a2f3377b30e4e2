import Glibc

/// The memory limits of the process.
enum MemoryLimit {
    /// Default of ``ServerLimits/memoryBytes``: a quarter of what the process may use, at least 256 MiB and at most 1 GiB.
    static let defaultBudget = budget(ofLimit: processBytes)

    static func budget(ofLimit bytes: Int) -> Int { min(max(bytes / 4, 256 << 20), 1 << 30) }

    /// The smallest of physical memory, the address space limit (`ulimit -v`) and the limits of the control groups, in bytes.
    static var processBytes: Int {
        var least = max(1, sysconf(Int32(_SC_PHYS_PAGES))) * max(1, sysconf(Int32(_SC_PAGESIZE)))
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_AS.rawValue), &limit) == 0, let bytes = Int(exactly: limit.rlim_cur) {
            least = min(least, bytes)
        }
        for bytes in groupLimits(text(of: "/proc/self/cgroup") ?? "", text) { least = min(least, bytes) }
        return least
    }

    /// The memory limits of a process' control group and of its ancestors, version 1 or 2.
    /// - Parameters:
    ///   - groups: as in `/proc/self/cgroup`: `0::/a/b` (version 2), `5:memory:/a/b` (version 1).
    ///   - read: the text of a file; nil when it does not exist.
    static func groupLimits(_ groups: String, _ read: (String) -> String?) -> [Int] {
        var limits: [Int] = []
        for line in groups.split(separator: "\n") {
            let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { continue }
            let isSecond = parts[0] == "0" && parts[1].isEmpty
            guard isSecond || parts[1].split(separator: ",").contains("memory") else { continue }
            let (base, name) = isSecond ? ("/sys/fs/cgroup", "memory.max") : ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            var names = parts[2].split(separator: "/")
            while true {
                let folder = ([base] + names.map(String.init)).joined(separator: "/")
                // "max" means no limit.
                if let bytes = read("\(folder)/\(name)").flatMap({ Int($0.filter(\.isNumber)) }), bytes > 0 { limits.append(bytes) }
                if names.isEmpty { break }
                names.removeLast()
            }
        }
        return limits
    }

    private static func text(of file: String) -> String? {
        guard let stream = fopen(file, "r") else { return nil }
        defer { fclose(stream) }
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        let count = fread(&bytes, 1, bytes.count, stream)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
