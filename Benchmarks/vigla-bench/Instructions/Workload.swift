/// A fixed piece of work whose instructions are counted.
struct Workload: Sendable {
    let name: String
    /// Runs in the shorter of two counts; the longer one has twice as many.
    let count: Int
    /// Prepares the work and returns a closure that runs it a number of times.
    let prepare: @Sendable () throws -> (_ times: Int) throws -> Void

    static let all: [Workload] = trees + [rules, copies] + hub + [journal]
}

/// Keeps results from being optimised away.
nonisolated(unsafe) var workloadSink = 0
