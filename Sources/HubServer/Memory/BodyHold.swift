import DispatchNet

/// The budget's hold for a response under way. It is released in the background, after the loop turn in which the response ends: by
/// then nothing on the loop retains the content, so freeing it, which may be long, happens there.
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
