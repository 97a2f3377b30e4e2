package import Scheduling

/// The notification rate state of one view and style.
package struct Pace {
    /// Steady ms.
    package var notifiedAt: Int64
    /// True if the view has changed since.
    package var isPending = false
    /// Will notify the observers when it fires.
    package var timer: ScheduledWork?

    package init(notifiedAt: Int64, isPending: Bool = false, timer: ScheduledWork? = nil) {
        (self.notifiedAt, self.isPending, self.timer) = (notifiedAt, isPending, timer)
    }
}
