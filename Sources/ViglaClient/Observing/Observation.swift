public import WireProtocols

/// A notification of an observer's handler.
public enum Observation: Sendable, Equatable {
    /// An initial value or a change; `seq` is the number of the commit.
    case event(ObserveEvent, seq: Int64)
    /// Earlier events no longer count: all current data follows, as at the start. Sent after a reconnect if the hub cannot determine which events
    /// were missed, for instance because it restarted. Otherwise observers continue silently where they were.
    case reset(seq: Int64)
    /// The hub has ended the observer (rules, sign-out), or the client is closed. The last notification.
    case ended(ClientError)
}
