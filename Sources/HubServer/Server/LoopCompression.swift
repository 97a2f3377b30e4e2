import DispatchNet
import WireProtocols

/// Compresses the messages of one lane: each once, however many sessions it goes to. No message refers to an earlier one, so
/// sessions need no compressor of their own; they share one for each size of window.
///
/// ```
/// staged frame ──┬──────────────────────────────► sessions without compression
///                └─► compressed, staged again ──► sessions with it
/// ```
struct LoopCompression {
    private let settings: DeflateSettings
    /// By window bits.
    private var encoders: [Int: WebSocketEncoder] = [:]
    /// The last staged frame and its compressed forms by window bits, for the next session of the same audience.
    private var source: StagedFrame?
    private var results: [Int: StagedFrame] = [:]
    private var wasUsed = false

    init(_ settings: DeflateSettings) { self.settings = settings }

    /// Whole frames for one session.
    mutating func compressed(_ frames: [UInt8], _ direction: DeflateAgreement.Direction) -> [UInt8] {
        guard isWorthIt(frames) else { return frames }
        wasUsed = true
        return encoders[direction.windowBits, default: WebSocketEncoder(direction, settings: settings)].compressed(frames) ?? frames
    }

    /// Staged frames for many sessions; `frames` are their bytes.
    mutating func compressed(
        _ staged: StagedFrame, _ frames: [UInt8], _ direction: DeflateAgreement.Direction, _ loop: EventLoop
    ) -> StagedFrame {
        guard isWorthIt(frames) else { return staged }
        if source != staged {
            source = staged
            results.removeAll(keepingCapacity: true)
        }
        if let known = results[direction.windowBits] { return known }
        let smaller = compressed(frames, direction)
        let result = smaller.count < frames.count ? loop.stage(smaller) : staged
        results[direction.windowBits] = result
        return result
    }

    private func isWorthIt(_ frames: [UInt8]) -> Bool { frames.count >= settings.thresholdBytes && frames.count <= settings.mostBytes }

    /// Once a second: frees the compressors if no session used one since the last tick.
    mutating func tick() {
        if !wasUsed { encoders.removeAll() }
        wasUsed = false
    }
}
