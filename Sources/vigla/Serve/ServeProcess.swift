import Dispatch
import Glibc

/// SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once.
final class StopSignals: @unchecked Sendable {
    // because all that changes is used on `queue` only.
    private let queue = DispatchQueue(label: "vigla.signals")
    private let sources: [any DispatchSourceSignal]
    private var received = 0
    private var stop: (@Sendable () -> Void)?

    /// From here on the signals are kept for `begin`: one that comes while the hub starts is not lost.
    init() {
        let ready = DispatchGroup()
        let queue = queue
        sources = [SIGTERM, SIGINT].map { number in
            // Ignored for the process; the source sees it nevertheless, once it is registered.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            ready.enter()
            source.setRegistrationHandler { ready.leave() }
            return source
        }
        for source in sources {
            // Held by its own sources: as long as the process.
            source.setEventHandler { self.receive(Int(source.data)) }
            source.resume()
        }
        // On the main thread, before anything runs that this could hold up.
        ready.wait()
    }

    /// What an orderly stop is, called once, on a queue of its own.
    func begin(_ stop: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            self.stop = stop
            if received > 0 { stop() }
        }
    }

    private func receive(_ count: Int) {
        received += count
        if received > 1 { _exit(130) }
        stop?()
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
