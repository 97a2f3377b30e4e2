public import WireProtocols

/// A notification of an observer's handler.
public enum Observation: Sendable, Equatable {
    /// An initial value or a change; `seq` is the number of the commit.
    case event(ObserveEvent, seq: Int64)
    /// The client has reconnected: drop the observed state; all initial events follow again.
    case restarted
    /// The hub has ended the observer (rules, sign-out), or the client is closed. The last notification.
    case ended(ClientError)
}
