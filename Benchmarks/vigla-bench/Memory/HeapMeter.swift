import CLinux
import Glibc

/// The memory of this process, as reported by the allocator and by the system.
enum HeapMeter {
    /// Bytes in use by the allocator: of all arenas, and blocks mapped separately (mallinfo(3)).
    static var allocated: Int {
        let info = mallinfo2()
        return info.uordblks + info.hblkhd
    }

    /// Returns free memory to the system, so that the two figures can be compared.
    static func trim() { _ = malloc_trim(0) }

    /// Resident bytes of a process, by default this one (proc_pid_statm(5)).
    static func resident(_ process: pid_t? = nil) -> Int {
        let pages = line(of: process, "statm") { _ in true }.split(separator: " ").dropFirst().first
        return (pages.flatMap { Int($0) } ?? 0) * Int(getpagesize())
    }

    /// Starts a new measurement of `highestResident` (proc_pid_clear_refs(5)).
    static func resetHighest() {
        guard let file = fopen("/proc/self/clear_refs", "w") else { return }
        fputs("5", file)
        fclose(file)
    }

    /// Peak resident bytes since `resetHighest`.
    static var highestResident: Int {
        let words = line(of: nil, "status") { $0.hasPrefix("VmHWM:") }.split { !$0.isNumber }
        return (words.first.flatMap { Int($0) } ?? 0) * 1024
    }

    private static func line(of process: pid_t?, _ name: String, where isWanted: (String) -> Bool) -> String {
        guard let file = fopen("/proc/\(process.map { "\($0)" } ?? "self")/\(name)", "r") else { return "" }
        defer { fclose(file) }
        var bytes = [CChar](repeating: 0, count: 512)
        while fgets(&bytes, 512, file) != nil {
            let line = String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if isWanted(line) { return line }
        }
        return ""
    }
}
