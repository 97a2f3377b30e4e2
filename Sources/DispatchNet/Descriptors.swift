internal import Glibc

/// The process's file descriptors: each connection is one.
public enum Descriptors {
    /// Raises the process's descriptor limit as far as the system permits, and returns it.
    @discardableResult
    public static func raiseLimit() -> Int {
        var limit = rlimit()
        let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        guard getrlimit(kind, &limit) == 0 else { return 1024 }
        if limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max
            if setrlimit(kind, &limit) != 0 { _ = getrlimit(kind, &limit) }
        }
        return Int(clamping: limit.rlim_cur)
    }
}
