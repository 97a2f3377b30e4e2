public import WireProtocols

/// What an observer's handler is told.
public enum Observation: Sendable, Equatable {
    /// Something is there, or has changed; `seq` is the number of the commit.
    case event(ObserveEvent, seq: Int64)
    /// The connection was lost and another one is being used: forget what was seen, all of it is told again from here.
    case restarted
    /// The hub refuses to go on (rules, sign-out), or the client is closed. Nothing follows.
    case ended(ClientError)
}
