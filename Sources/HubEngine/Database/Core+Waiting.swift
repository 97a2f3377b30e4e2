import Dispatch
import JSONTree
import Synchronization

/// A batch that has been carried out and is not durable yet.
struct WaitingBatch {
    let output: OutputBuffer
    let history: BatchHistory
    /// The content after the batch.
    let root: Node
    let sequence: UInt64
    /// Bytes of its requests.
    let bytes: Int
    /// How many the log has of it.
    let commits: Int
    /// What is large and no longer needed behind the batch.
    let retiring: [any Sendable]
    var isDurable: Bool
}

/// Output in the order of commits: what a batch has to say leaves when it and all before it are durable.
extension Core {
    /// Ends the batch that runs: its commits go to the log, its output waits for that.
    func finishBatch() {
        releaseEarly()
        let (batch, written, done, bytes, old) = (output, commits, history, batchBytes, retiring)
        output = OutputBuffer(lanes: laneCount, number: firstWaiting + waiting.count + 1)
        (commits, history, batchBytes, retiring) = ([], BatchHistory(), 0, [])
        if written.isEmpty || log.isImmediate {
            if !written.isEmpty { log.append(written) { _ in } }
            if waiting.isEmpty {
                firstWaiting += 1
                finished(bytes)
                batch.release(to: outlet, from: lane)
                free(old)
            } else {
                waiting.append(WaitingBatch(
                    output: batch, history: done, root: root, sequence: sequence, bytes: bytes, commits: 0, retiring: old, isDurable: true))
            }
            return
        }
        let index = firstWaiting + waiting.count
        waiting.append(WaitingBatch(
            output: batch, history: done, root: root, sequence: sequence, bytes: bytes, commits: written.count, retiring: old,
            isDurable: false))
        waitingCommits += written.count
        log.append(written) { [self] result in
            queue.async { [self] in becameDurable(index, result) }
        }
    }

    private func becameDurable(_ index: Int, _ result: Result<Void, CommitRefusal>) {
        dispatchPrecondition(condition: .onQueue(queue))
        // Below the first: the batch was given up together with an earlier one.
        guard index >= firstWaiting else { return }
        if case .failure(let reason) = result { return goBack(reason) }
        waiting[index - firstWaiting].isDurable = true
        var released = 0
        var old: [any Sendable] = []
        while released < waiting.count, waiting[released].isDurable {
            waiting[released].output.release(to: outlet, from: lane)
            finished(waiting[released].bytes)
            waitingCommits -= waiting[released].commits
            durable = (waiting[released].root, waiting[released].sequence)
            old += waiting[released].retiring
            released += 1
        }
        waiting.removeFirst(released)
        firstWaiting += released
        free(old)
        takeTurnLater()
    }

    /// Lets go of large values in the background: each of their objects takes its time.
    func free(_ old: [any Sendable]) {
        if old.isEmpty { return }
        let last = Errand { withExtendedLifetime(old) {} }
        // Behind the requests that run, which hold it as well.
        queue.async { [background] in background.run(.upkeep) { last.forget() } }
    }

    /// Where output begins to leave: no lane is always told first.
    private var lane: Int { Int(truncatingIfNeeded: sequence % UInt64(laneCount)) }

    /// Requests have become durable, or were given up.
    func finished(_ bytes: Int) {
        if bytes > 0 { gauge.waitingBytes.subtract(bytes, ordering: .relaxed) }
    }
}
