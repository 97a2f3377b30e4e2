import Accounts
import Glibc

/// Facts of this process from the system, read for each metrics request. Zero where one is unavailable.
struct ProcessFacts {
    /// Bytes in memory (`/proc/self/statm`).
    let residentBytes: Int
    /// Processor time since the start, in ms.
    let cpuMs: Int
    /// Number of open descriptors, and their limit.
    let descriptors: (open: Int, most: Int)

    init() {
        let pages = Self.text("/proc/self/statm").split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        residentBytes = pages * max(1, sysconf(Int32(_SC_PAGESIZE)))
        var usage = rusage()
        getrusage(RUSAGE_SELF.rawValue, &usage)
        cpuMs = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 + Int(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        descriptors = (Self.descriptors(), Int(clamping: limit.rlim_cur))
    }

    /// O(open descriptors)
    private static func descriptors() -> Int {
        guard let folder = opendir("/proc/self/fd") else { return 0 }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        // Without `.`, `..` and the folder's own.
        return max(0, count - 3)
    }

    private static func text(_ file: String) -> String {
        guard let stream = fopen(file, "r") else { return "" }
        defer { fclose(stream) }
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = fread(&bytes, 1, bytes.count, stream)
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    /// Sizes of the hub's data files by name; missing files are left out.
    static func dataFiles(in folder: String) -> [(name: String, bytes: Int)] {
        (["vigla.sqlite"] + AccountStore.fileNames(in: folder)).flatMap { [$0, $0 + "-wal"] }.compactMap { name in
            var info = stat()
            return stat("\(folder)/\(name)", &info) == 0 ? (name, Int(info.st_size)) : nil
        }
    }
}
