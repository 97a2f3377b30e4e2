public import WireProtocols

/// A notification of an observer's handler.
public enum Observation: Sendable, Equatable {
    /// An initial value or a change; `seq` is the number of the commit.
    case event(ObserveEvent, seq: Int64)
    /// What was told before counts no more: all that is there follows, as at the start. Behind a reconnect where the hub cannot tell what
    /// was missed, for instance as it has been restarted; else observers go on where they were, without a word.
    case reset(seq: Int64)
    /// The hub has ended the observer (rules, sign-out), or the client is closed. The last notification.
    case ended(ClientError)
}
