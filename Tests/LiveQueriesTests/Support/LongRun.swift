import Foundation

/// Steps of model tests in a long run, from the environment; nil in the suite.
let longRun = ProcessInfo.processInfo.environment["VIGLA_LIVE_QUERY_STEPS"].flatMap { Int($0) }
