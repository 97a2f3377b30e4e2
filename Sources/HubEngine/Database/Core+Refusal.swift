import Dispatch
import JSONTree

/// While the log refuses commits, because the disk is full or broken.
///
/// ```
/// writing ── the log refuses a batch ──► refusing: reads go on, every write is answered with an error
///    ▲                                       │ once in `retryMs`: an empty commit
///    └── owed writes are made ◄── taken ─────┘
/// ```
/// Nobody has seen anything of what is refused: its output was still waiting.
struct Refusal {
    var reason: CommitRefusal
    /// When the log was tried last, ms since the epoch.
    var tried: Int64
    /// Whether a try is under way.
    var isTrying = false
}

extension Core {
    /// The log refused a batch: content and sessions go back to what is durable, which is all that anybody has been told. What
    /// was asked in the batches that are given up is carried out again: writes are refused, reads see the durable content.
    func goBack(_ reason: CommitRefusal) {
        let givenUp = waiting
        let parked = takeParked()
        waiting = []
        firstWaiting += givenUp.count
        waitingCommits = 0
        let before = root
        (root, sequence) = durable
        refusal = Refusal(reason: reason, tried: clock())
        counters.refusal = reason.forLater
        counters.refusals += 1
        goBack(from: before)
        for change in givenUp.reversed().lazy.flatMap({ $0.history.changes.reversed() }) { takeBack(change) }
        // What was noted while taking back is nobody's step.
        history = BatchHistory()
        for batch in givenUp { batch.output.giveUp() }
        // Before anybody is told anything: the rules may have changed since.
        recheckAllObservers()
        for batch in givenUp {
            finished(batch.bytes)
            for step in batch.history.steps {
                repeatStep(step)
                finishLargeBatch()
            }
        }
        // Those were given to the log; what comes now is not.
        refusal?.reason = reason.forLater
        handleAgain(parked)
        recheckAllObservers()
        for batch in givenUp { output.takeProbes(of: batch.output) }
        finishBatch()
        gauge.publish(counters)
        takeTurnLater()
        tryLogLater()
    }

    private func repeatStep(_ step: BatchHistory.Step) {
        switch step {
        case .request(let item): if !item.client.hasEnded, !mustWaitBehindParked(item) { carryOut(item) }
        case .settled(let item): carryOutAgain(item)
        case .tooLarge(let client, let observation): remove(observation, of: client)
        case .catchUp(let client, let stale): if !client.hasEnded { tell(client, stale) }
        case .show(let path, let ordering): tell(at: path, ordering)
        case .fire(let left): fire(left)
        case .retell(let id): untold.insert(id)
        }
    }

    /// - Throws: while the log refuses. Asked last, when nothing else speaks against a write.
    func mustTakeWrites() throws(Failure) {
        guard let refusal else { return }
        counters.refusedWrites += 1
        throw Failure(.unavailable, refusal.reason.text)
    }

    // MARK: Trying again

    private func tryLogLater() {
        let number = counters.refusals
        queue.asyncAfter(deadline: .now() + .milliseconds(limits.retryMs)) { [weak self] in
            guard let self, refusal != nil, number == counters.refusals else { return }
            tryLog()
            tryLogLater()
        }
    }

    /// On the way of requests, so that a hub that is asked needs no timer.
    func tryLogIfDue() {
        guard let refusal else { return }
        let now = clock()
        // A clock that was set back says nothing.
        if now < refusal.tried || now - refusal.tried >= limits.retryMs { tryLog() }
    }

    /// Appends a commit that changes nothing. Nothing else is appended until its result is known.
    private func tryLog() {
        guard refusal?.isTrying == false else { return }
        refusal?.isTrying = true
        refusal?.tried = clock()
        log.append([Commit(sequence: sequence + 1, operations: [], pending: [])]) { [self] result in
            queue.async { [self] in tried(result) }
        }
    }

    private func tried(_ result: Result<Void, CommitRefusal>) {
        dispatchPrecondition(condition: .onQueue(queue))
        switch result {
        case .failure(let reason):
            refusal?.reason = reason.forLater
            refusal?.isTrying = false
            counters.refusal = reason.forLater
            gauge.publish(counters)
        case .success:
            sequence += 1
            durable.sequence = sequence
            refusal = nil
            counters.refusal = nil
            handle([])
        }
    }
}
