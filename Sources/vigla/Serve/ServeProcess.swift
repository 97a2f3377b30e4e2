import Dispatch
import Glibc

/// SIGTERM and SIGINT: the first asks for an orderly stop, the second ends the process at once. SIGHUP: what was read from
/// files is read again. SIGUSR2: the log of requests is turned on or off.
final class ProcessSignals: @unchecked Sendable {
    // because all that changes is used on `queue` only.
    private let queue = DispatchQueue(label: "vigla.signals")
    private let sources: [any DispatchSourceSignal]
    private var received = 0
    private var stop: (@Sendable () -> Void)?
    private var reload: (@Sendable () -> Void)?
    private var toggle: (@Sendable () -> Void)?
    /// Whether SIGUSR2 has come before `begin`.
    private var isToggled = false

    /// From here on the signals are kept for `begin`: one that comes while the hub starts is not lost.
    init() {
        let ready = DispatchGroup()
        let queue = queue
        sources = [SIGTERM, SIGINT, SIGHUP, SIGUSR2].map { number in
            // Ignored for the process; the source sees it nevertheless, once it is registered.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            ready.enter()
            source.setRegistrationHandler { ready.leave() }
            return source
        }
        for (number, source) in zip([SIGTERM, SIGINT, SIGHUP, SIGUSR2], sources) {
            // Held by its own sources: as long as the process.
            source.setEventHandler {
                // Before the start is done nothing is older than the files.
                switch number {
                case SIGHUP: self.reload?()
                case SIGUSR2: self.receiveToggle(Int(source.data))
                default: self.receive(Int(source.data))
                }
            }
            source.resume()
        }
        // On the main thread, before anything runs that this could hold up.
        ready.wait()
    }

    /// What an orderly stop is, called once, and what is done for each SIGHUP and SIGUSR2; all on a queue of their own.
    func begin(
        stop: @escaping @Sendable () -> Void, reload: @escaping @Sendable () -> Void, toggle: @escaping @Sendable () -> Void
    ) {
        queue.async { [self] in
            self.stop = stop
            self.reload = reload
            self.toggle = toggle
            if received > 0 { stop() }
            if isToggled { toggle() }
        }
    }

    /// Signals of one moment come as one, with their number.
    private func receiveToggle(_ count: Int) {
        guard count % 2 == 1 else { return }
        if let toggle { toggle() } else { isToggled.toggle() }
    }

    private func receive(_ count: Int) {
        received += count
        if received > 1 { _exit(130) }
        stop?()
    }
}
