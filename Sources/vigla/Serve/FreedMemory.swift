import CLinux
import Dispatch
import Glibc
import HubServer
import Scheduling

/// Returns unused memory to the system. The C library would keep most of what a burst of large
/// messages took: it has a heap for each thread, and after the first large block is freed it places larger and larger ones
/// in these heaps instead of mapping them separately.
enum FreedMemory {
    /// Blocks of at least this size are mapped separately, and returned when they are freed.
    private static let ownBytes: Int32 = 1 << 20
    /// Bytes that may stay free at the end of a heap.
    private static let keptBytes: Int32 = 8 << 20
    /// A drop of the bytes held for clients that is worth trimming the heaps.
    private static let fallBytes = 64 << 20
    /// Minimum time between two trims.
    private static let pauseMs: Int64 = 10_000

    /// Call before the process has other threads.
    static func configure() {
        mallopt(M_MMAP_THRESHOLD, ownBytes)
        mallopt(M_TRIM_THRESHOLD, keptBytes)
        mallopt(M_ARENA_MAX, Int32(max(4, sysconf(Int32(_SC_NPROCESSORS_ONLN)))))
    }

    /// Trims the heaps after such drops, for the server's lifetime.
    static func watch(_ server: Server, _ scheduler: Scheduler) {
        scheduler.every(ms: pauseMs, on: DispatchQueue(label: "vigla.memory", qos: .utility)) { [weak server] in
            if server?.consumeMemoryFall(over: fallBytes) == true { malloc_trim(0) }
        }
    }
}
