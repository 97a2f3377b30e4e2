/// Why a measurement has no result.
enum BenchError: Error, CustomStringConvertible {
    /// The server could not be started, or ended before it was ready.
    case serverFailed(String)
    /// The system refused a descriptor or an address.
    case system(String, errno: Int32)
    /// The server closed a connection during the run.
    case connectionLost(String)
    /// The server's answer does not follow the protocol.
    case unexpected(String)
    /// Nothing more arrived, but messages are missing.
    case incomplete(String)

    var description: String {
        switch self {
        case .serverFailed(let what): "server failed: \(what)"
        case .system(let call, let errno): "\(call) failed (errno \(errno))"
        case .connectionLost(let what): "connection lost: \(what)"
        case .unexpected(let what): "unexpected answer: \(what)"
        case .incomplete(let what): "incomplete: \(what)"
        }
    }
}
