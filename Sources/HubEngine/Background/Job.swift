/// Work whose cost grows with the data. It is computed in the background on the tree of one moment; back on the queue, others may have written.
/// Then it is brought up to date there if little has changed, and tried again otherwise.
///
/// ```
/// run ─► prepare ─► compute, in the background ─► use ─┬─► done
///           ▲                                          ├─► behind: from this value on, which takes less time each try ─┐
///           │                                          └─► outdated: from scratch ─────────────────────────────────────┤
///           └──────────────────────────────────────────── tries are left ◄─────────────────────────────────────────────┘
///                                                         none are left: giveUp
/// ```
/// All steps but the computation run on the database queue.
struct Job<Value: Sendable>: Sendable {
    /// The part in the background. It captures the tree and whatever else it rests on.
    typealias Computation = @Sendable () -> Value

    /// What became of a computed value on the queue.
    enum Outcome: Sendable {
        /// It was used, or is not needed any more.
        case done
        /// Too much was written since to bring it up to date on the queue.
        case behind(Value)
        /// It cannot be brought up to date.
        case outdated
    }

    /// How often the value is computed, at most.
    let tries: Int
    /// The computation on the current tree: from the value of the last try, or from scratch. Nil if the job is not needed any more.
    let prepare: @Sendable (_ last: Value?) -> Computation?
    /// Brings a value up to date with the current tree and uses it.
    let use: @Sendable (Value) -> Outcome
    /// Called when the last try has failed, with its value if that can be continued.
    let giveUp: @Sendable (Value?) -> Void

    /// Runs the job, one computation at a time.
    /// - Parameters:
    ///   - background: runs the computations.
    ///   - queue: the database queue, on which this is called.
    ///   - last: a value of an earlier tree to start from.
    func run(_ background: BackgroundWork, on queue: DatabaseQueue, from last: Value? = nil) {
        queue.assertCurrent()
        attempt(1, from: last, background, queue)
    }

    private func attempt(_ number: Int, from last: Value?, _ background: BackgroundWork, _ queue: DatabaseQueue) {
        guard let computation = prepare(last) else { return }
        background.compute(computation, on: queue) { value in
            let next: Value?
            switch use(value) {
            case .done: return
            case .behind(let value): next = value
            case .outdated: next = nil
            }
            if number < tries { attempt(number + 1, from: next, background, queue) } else { giveUp(next) }
        }
    }
}
