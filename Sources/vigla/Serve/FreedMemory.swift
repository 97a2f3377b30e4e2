import CLinux
import Dispatch
import Glibc
import HubServer
import Scheduling

/// Gives memory back to the system that the hub needs no more. The C library would keep most of what a burst of large
/// messages took: it has a heap for each thread, and after the first large block that is freed it maps larger and larger ones
/// into these heaps instead of on their own.
enum FreedMemory {
    /// Blocks of at least this size are mapped on their own, and go back as soon as they are freed.
    private static let ownBytes: Int32 = 1 << 20
    /// What may stay free at the end of a heap.
    private static let keptBytes: Int32 = 8 << 20
    /// A fall of what clients hold that is worth a look through the heaps, in bytes.
    private static let fallBytes = 64 << 20
    /// The time between two such looks at least.
    private static let pauseMs: Int64 = 10_000

    /// Call before the process has other threads.
    static func configure() {
        mallopt(M_MMAP_THRESHOLD, ownBytes)
        mallopt(M_TRIM_THRESHOLD, keptBytes)
        mallopt(M_ARENA_MAX, Int32(max(4, sysconf(Int32(_SC_NPROCESSORS_ONLN)))))
    }

    /// Looks after a server as long as it lives.
    static func watch(_ server: Server, _ scheduler: Scheduler) {
        scheduler.every(ms: pauseMs, on: DispatchQueue(label: "vigla.memory", qos: .utility)) { [weak server] in
            if server?.consumeMemoryFall(over: fallBytes) == true { malloc_trim(0) }
        }
    }
}
