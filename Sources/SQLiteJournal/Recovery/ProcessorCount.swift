import Glibc

enum ProcessorCount {
    /// Cores that are on.
    static var active: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }
}
