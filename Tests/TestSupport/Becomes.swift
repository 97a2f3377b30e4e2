import Dispatch
import Glibc

/// Asks again and again until something is so; false when it is not within 20 s, so that a defect fails a test instead of hanging it.
/// For effects of another thread or process that sends no notification.
package func becomes(_ condition: () throws -> Bool) rethrows -> Bool {
    let end = DispatchTime.now() + 20
    repeat {
        if try condition() { return true }
        usleep(1_000)
    } while DispatchTime.now() < end
    return try condition()
}

/// The same for async tests, without holding a thread up; false after 20,000 looks, 1 ms apart. Not after a time: where threads are
/// few, such a test waits behind all others, and so does what it waits for.
package func becomes(_ condition: () throws -> Bool) async rethrows -> Bool {
    for _ in 0..<20_000 {
        if try condition() { return true }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return try condition()
}
