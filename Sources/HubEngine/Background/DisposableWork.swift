/// Work that runs once on the database queue. Its captures are released on another thread, where that delays no request.
final class DisposableWork: @unchecked Sendable {
    // Sendable: run on the database queue, then passed to the thread that disposes of it.
    private var body: (() -> Void)?

    init(_ body: @escaping () -> Void) { self.body = body }

    func run() { body?() }
    func dispose() { body = nil }
}
