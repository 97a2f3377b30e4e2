import Dispatch
import Glibc

/// Polls a condition; false if it is not met within 20 s, so that a defect fails a test instead of hanging it. For effects of another thread or
/// process that sends no notification.
package func becomes(_ condition: () throws -> Bool) rethrows -> Bool {
    let end = DispatchTime.now() + 20
    repeat {
        if try condition() { return true }
        usleep(1_000)
    } while DispatchTime.now() < end
    return try condition()
}

/// The same for async tests, without blocking a thread; false after 20,000 checks, 1 ms apart. The bound is not a time: with few threads, the test
/// and the code it waits for are delayed by all other tests.
package func becomes(_ condition: () throws -> Bool) async rethrows -> Bool {
    for _ in 0..<20_000 {
        if try condition() { return true }
        try? await Task.sleep(for: .milliseconds(1))
    }
    return try condition()
}
