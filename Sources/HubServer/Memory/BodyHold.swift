import DispatchNet

/// What an answer under way holds of the memory budget. It goes in the background, behind the turn of the loop in which the
/// answer ends: by then nothing on the loop holds the content any more, which may be large and of no other use.
final class BodyHold: Sendable {
    private let held: any Sendable
    private let loop: EventLoop

    init(_ held: any Sendable, _ loop: EventLoop) {
        self.held = held
        self.loop = loop
    }

    deinit {
        let last = Retired(held)
        loop.execute { last.retire() }
    }
}
