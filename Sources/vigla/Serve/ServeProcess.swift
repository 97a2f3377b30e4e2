import Dispatch
import Glibc

/// SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.
struct StopSignals {
    private let queue = DispatchQueue(label: "vigla.signals")
    private let sources: [any DispatchSourceSignal]

    /// From here on the signals wait for `begin`.
    init() {
        let queue = queue
        sources = [SIGTERM, SIGINT].map { number in
            signal(number, SIG_IGN)
            return DispatchSource.makeSignalSource(signal: number, queue: queue)
        }
    }

    func begin(_ stop: @escaping @Sendable () -> Void) {
        let count = Count()
        for source in sources {
            source.setEventHandler {
                count.value += Int(source.data)
                if count.value > 1 { _exit(130) }
                stop()
            }
            source.resume()
        }
    }

    private final class Count: @unchecked Sendable {
        // because it is used on the signals' queue only.
        var value = 0
    }
}

/// One descriptor per connected client: the soft limit of most systems would end at a thousand.
enum OpenFiles {
    static func raiseLimit() {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
        limit.rlim_cur = limit.rlim_max
        _ = setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
