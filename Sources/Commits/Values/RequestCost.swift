/// The estimated cost of requests, in units of work: a unit is a third of a small write, about 2 µs (`Meter.work`).
package enum RequestCost {
    /// Bytes of output that cost as much as a small request.
    @inlinable package static var bytesEncodedForWork: Int { 1_024 }
    /// Children selected by a query that cost as much as a small request.
    @inlinable package static var childrenForWork: Int { 16 }
    /// Bytes of a small request, overhead included.
    private static let bytesOfSmall = 2_560
    /// Bytes beyond those of a small request for each further unit of work.
    private static let bytesOfWork = 128

    /// The work of a request that holds so many bytes.
    package static func work(ofBytes bytes: Int) -> Int { 1 + max(0, bytes - bytesOfSmall) / bytesOfWork }
}
