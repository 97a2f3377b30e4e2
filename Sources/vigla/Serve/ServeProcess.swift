import Dispatch
import Glibc

/// SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once. SIGHUP: what was read from
/// files is read again.
final class ProcessSignals: @unchecked Sendable {
    // because all that changes is used on `queue` only.
    private let queue = DispatchQueue(label: "vigla.signals")
    private let sources: [any DispatchSourceSignal]
    private var received = 0
    private var stop: (@Sendable () -> Void)?
    private var reload: (@Sendable () -> Void)?

    /// From here on the signals are kept for `begin`: one that comes while the hub starts is not lost.
    init() {
        let ready = DispatchGroup()
        let queue = queue
        sources = [SIGTERM, SIGINT, SIGHUP].map { number in
            // Ignored for the process; the source sees it nevertheless, once it is registered.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            ready.enter()
            source.setRegistrationHandler { ready.leave() }
            return source
        }
        for (number, source) in zip([SIGTERM, SIGINT, SIGHUP], sources) {
            // Held by its own sources: as long as the process.
            source.setEventHandler {
                // Before the start is done nothing is older than the files.
                if number == SIGHUP { self.reload?() } else { self.receive(Int(source.data)) }
            }
            source.resume()
        }
        // On the main thread, before anything runs that this could hold up.
        ready.wait()
    }

    /// What an orderly stop is, called once, and what is done for each SIGHUP; both on a queue of their own.
    func begin(stop: @escaping @Sendable () -> Void, reload: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            self.stop = stop
            self.reload = reload
            if received > 0 { stop() }
        }
    }

    private func receive(_ count: Int) {
        received += count
        if received > 1 { _exit(130) }
        stop?()
    }
}
