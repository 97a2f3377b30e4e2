package import Commits
package import JSONTree
import Scheduling
package import SecurityRules

/// Rate limits of each user's writes: one for all writes, and those of the rules (`.rate`) for their paths. A
/// request over one of its budgets is refused before any work, and charged to none of them. Without limits nothing is counted and nothing
/// is spent.
///
/// Requests are counted as received, including those that the rules then refuse. The overall budget counts a request as one write. The
/// budget of a path counts the writes at or below it.
/// Copies and inbox rows that follow are charged to the budgets of their own paths once they are known. Such a request is
/// refused while one of these budgets is overdrawn; otherwise it may overdraw them.
/// Administrators, the hub itself and writes at the end of a session are not counted.
///
/// Confined to the database queue.
package struct WriteBudgets {
    private let rate: WriteRate?
    /// Limits per request: paths that a `.rate` may count, and budgets of the rules.
    private let places: Int
    private let budgets: Int
    private var kept: CallerTable<Int, TokenBucket>
    /// The budgets of the current request. They are few, so the dictionary keeps its capacity.
    private var counting: [Int: Counting] = [:]

    private struct Counting {
        let rate: TokenBucket.Rate
        var writes: Int64
        /// Depth of the rule's node in the data, and a written path through it. Nil for the overall budget.
        let place: (path: Path, depth: Int)?
        let text: WriteRate
    }

    /// Why a request is refused.
    package struct BudgetRefusal {
        package let failure: Failure
        /// The budget's description, for the log.
        package let budget: String
        /// A written path that the budget counts.
        package let path: Path
    }

    /// - Parameters:
    ///   - rate: limit for all writes of a user together; nil for none.
    ///   - places: paths per request that a `.rate` may count.
    ///   - budgets: budgets of the rules per request.
    ///   - kept: budgets in memory.
    package init(rate: WriteRate?, places: Int, budgets: Int, kept: Int) {
        self.rate = rate
        (self.places, self.budgets) = (places, budgets)
        self.kept = CallerTable(most: kept)
    }

    /// Budgets in memory: those that are not full.
    package var count: Int { kept.count }

    /// Whether anything is counted at all.
    package func mayCount(_ rules: RuleSet) -> Bool { rate != nil || rules.hasRates }

    /// Charges a request if it is within all budgets. O(written paths · depth), up to the first one over its limit.
    /// - Parameter now: ns of a steady clock.
    /// - Returns: nil when the request may be carried out.
    package mutating func admit(_ writes: [TreeWrite], of client: Client, _ rules: RuleSet, now: Int64) -> BudgetRefusal? {
        guard mayCount(rules), !client.identity.isAdmin, let first = writes.first else { return nil }
        counting.removeAll(keepingCapacity: true)
        let owner = client.author
        if let rate { counting[Self.key(owner, nil)] = Counting(rate: TokenBucket.Rate(rate), writes: 1, place: nil, text: rate) }
        if rules.hasRates {
            let most = budgets + counting.count
            var placesLeft = places
            for write in writes {
                var (isCounted, over) = (false, Counting?.none)
                rules.forEachRate(on: write.path) { rate, depth in
                    let key = Self.key(owner, write.path.keys.prefix(depth))
                    var counted = counting[key]
                        ?? Counting(rate: TokenBucket.Rate(rate), writes: 0, place: (write.path, depth), text: rate)
                    counted.writes += 1
                    counting[key] = counted
                    isCounted = true
                    if counted.writes > rate.burst { over = over ?? counted }
                }
                if let over { return excess(over, waitNs: nil, first.path) }
                if isCounted { placesLeft -= 1 }
                if placesLeft < 0 || counting.count > most { return tooMany(write.path) }
            }
        }
        var (wait, refusing) = (Int64(0), Counting?.none)
        for (key, counted) in counting {
            let needed = bucket(key).wait(counted.rate, tokens: counted.writes, now: now)
            if needed > wait { (wait, refusing) = (needed, counted) }
        }
        if let refusing { return excess(refusing, waitNs: wait, first.path) }
        for (key, counted) in counting {
            var bucket = self.bucket(key)
            bucket.record(counted.rate, tokens: counted.writes, now: now)
            kept.keep(bucket, of: key, now: now)
        }
        return nil
    }

    /// Charges the consequences of a request to the first `ratedBudgets` budgets of their paths, if none of these is overdrawn.
    /// - Returns: nil when the consequences are admitted.
    package mutating func admit(_ found: Consequences, of client: Client, _ rules: RuleSet, now: Int64) -> BudgetRefusal? {
        guard rules.hasRates, !client.identity.isAdmin else { return nil }
        counting.removeAll(keepingCapacity: true)
        let owner = client.author
        func count(_ path: Path, _ writes: Int, above depth: Int) {
            rules.forEachRate(on: path) { rate, place in
                guard place <= depth else { return }
                let key = Self.key(owner, path.keys.prefix(place))
                guard var counted = counting[key] ?? (counting.count < budgets
                    ? Counting(rate: TokenBucket.Rate(rate), writes: 0, place: (path, place), text: rate) : nil)
                else { return }
                counted.writes += Int64(writes)
                counting[key] = counted
            }
        }
        for write in found.writes where write.value.exists && (write.kind == .copy || write.kind == .inbox) {
            count(write.path, 1, above: write.path.depth)
        }
        // The recipients of inbox rows in later commits are not known yet, so their shared ancestor is charged.
        for (rows, most) in found.continued { count(rows.places, most, above: rows.sharedDepth) }
        var (wait, refusing) = (Int64(0), Counting?.none)
        for (key, counted) in counting {
            let needed = bucket(key).wait(counted.rate, now: now)
            if needed > wait { (wait, refusing) = (needed, counted) }
        }
        if let refusing { return excess(refusing, waitNs: wait, refusing.place?.path ?? .root) }
        for (key, counted) in counting {
            var bucket = self.bucket(key)
            bucket.record(counted.rate, tokens: counted.writes, now: now)
            kept.keep(bucket, of: key, now: now)
        }
        return nil
    }

    private func bucket(_ key: Int) -> TokenBucket { kept[key] ?? TokenBucket(fullAt: .min) }

    private func tooMany(_ path: Path) -> BudgetRefusal {
        let text = "At most \(places) places that a '.rate' counts, and \(budgets) of such rates, may be in one request."
        return BudgetRefusal(failure: Failure(.tooBig, text), budget: "places of one request", path: path)
    }

    /// - Parameter waitNs: nil when waiting does not help.
    private func excess(_ counted: Counting, waitNs: Int64?, _ first: Path) -> BudgetRefusal {
        let place = counted.place.map { Path($0.path.keys.prefix($0.depth)) }
        let budget = "\(counted.text)" + (place.map { " at \($0)" } ?? "")
        let failure: Failure
        if let waitNs {
            failure = .overBudget(afterMs: max(1, (waitNs + 999_999) / 1_000_000))
        } else {
            failure = Failure(.tooBig, "At most \(counted.text.burst) places may be written at once at or below \(place ?? .root).")
        }
        return BudgetRefusal(failure: failure, budget: budget, path: counted.place?.path ?? first)
    }

    /// Budgets are identified by a hash, so that long keys take no memory. Two with the same hash share a budget: among 100,000 that has a
    /// chance of 1 in 10 billion.
    /// - Parameter keys: path of the budget; nil for the overall budget.
    private static func key(_ owner: Owner, _ keys: ArraySlice<Key>?) -> Int {
        var hasher = Hasher()
        hasher.combine(owner)
        hasher.combine(keys?.count ?? -1)
        if let keys { for key in keys { hasher.combine(key) } }
        return hasher.finalize()
    }
}

extension TokenBucket.Rate {
    /// The interval in ns.
    package init(_ rate: WriteRate) { self.init(burst: Int64(rate.burst), interval: Int64((1_000_000_000 / rate.perSecond).rounded())) }
}

extension Failure {
    package static func overBudget(afterMs ms: Int64) -> Failure {
        var failure = Failure(.overBudget, "You write too often. Nothing of this was stored; try again in \(max(1, (ms + 999) / 1000)) s.")
        failure.retryAfterMs = ms
        return failure
    }
}
