import Dispatch
import Glibc

/// SIGTERM and SIGINT: the first requests an orderly stop, the second ends the process at once. SIGHUP reloads
/// files. SIGUSR2 turns the request log on or off.
final class ProcessSignals: @unchecked Sendable {
    // because mutable state is used on `queue` only.
    private let queue = DispatchQueue(label: "vigla.signals")
    private let sources: [any DispatchSourceSignal]
    private var received = 0
    private var stop: (@Sendable () -> Void)?
    private var reload: (@Sendable () -> Void)?
    private var toggle: (@Sendable () -> Void)?
    /// Whether SIGUSR2 has come before `begin`.
    private var isToggled = false

    /// From now on signals are kept for `begin`: one that arrives while the hub starts is not lost.
    init() {
        let ready = DispatchGroup()
        let queue = queue
        sources = [SIGTERM, SIGINT, SIGHUP, SIGUSR2].map { number in
            // Ignored for the process; the source still receives it once it is registered.
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: queue)
            ready.enter()
            source.setRegistrationHandler { ready.leave() }
            return source
        }
        for (number, source) in zip([SIGTERM, SIGINT, SIGHUP, SIGUSR2], sources) {
            // Retained by its own sources for the process' lifetime.
            source.setEventHandler {
                // During the start a reload is not needed: the files were just read.
                switch number {
                case SIGHUP: self.reload?()
                case SIGUSR2: self.receiveToggle(Int(source.data))
                default: self.receive(Int(source.data))
                }
            }
            source.resume()
        }
        // On the main thread, before any work that this could delay.
        ready.wait()
    }

    /// Sets the handlers: `stop` is called once, the others for each SIGHUP and SIGUSR2; all on a private queue.
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

    /// Several pending signals arrive as one event with their number.
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
