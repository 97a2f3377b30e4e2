import Scheduling

/// The notification rate state of one view and style.
struct Pace {
    /// Steady ms.
    var notifiedAt: Int64
    /// True if the view has changed since.
    var isPending = false
    /// Will notify the observers when it fires.
    var timer: ScheduledWork?
}
