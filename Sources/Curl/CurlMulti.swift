import CCurl
import Glibc

/// Any number of transfers at once, on one thread, with connections that are kept and shared among them.
public final class CurlMulti: @unchecked Sendable {
    // Unchecked: all but `wakeUp` is called on one queue, and `curl_multi_wakeup` may be called from any thread.
    private let handle: UnsafeMutableRawPointer
    private var transfers: [UnsafeMutableRawPointer: CurlTransfer] = [:]

    /// Nil without memory or descriptors for it.
    /// - Parameter keptConnections: most connections that are kept open without a transfer.
    public init?(keptConnections: Int) {
        guard let handle = curl_multi_init() else { return nil }
        self.handle = handle
        _ = vigla_curl_multi_set_long(handle, CURLMOPT_MAXCONNECTS, keptConnections)
    }

    deinit {
        for transfer in transfers.values { curl_multi_remove_handle(handle, transfer.handle) }
        curl_multi_cleanup(handle)
    }

    /// Starts a transfer, which must not be used elsewhere until it has ended.
    /// - Throws: the first fault of its settings.
    public func add(_ transfer: CurlTransfer) throws(CurlFault) {
        try transfer.prepare()
        guard let easy = transfer.handle, curl_multi_add_handle(handle, easy) == CURLM_OK else {
            throw CurlFault(code: CURLE_FAILED_INIT, detail: "")
        }
        transfers[easy] = transfer
    }

    /// Drops a transfer; its connection is closed.
    public func remove(_ transfer: CurlTransfer) {
        guard let easy = transfer.handle, transfers.removeValue(forKey: easy) != nil else { return }
        curl_multi_remove_handle(handle, easy)
    }

    /// Reads and writes what is possible without waiting.
    /// - Returns: the transfers that have ended, with their faults.
    public func perform() -> [(transfer: CurlTransfer, fault: CurlFault?)] {
        var (running, left) = (Int32(0), Int32(0))
        curl_multi_perform(handle, &running)
        var ended: [(transfer: CurlTransfer, fault: CurlFault?)] = []
        while let message = curl_multi_info_read(handle, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            let code = message.pointee.data.result
            guard let transfer = transfers.removeValue(forKey: easy) else { continue }
            // The message is invalid from here on.
            curl_multi_remove_handle(handle, easy)
            ended.append((transfer, transfer.fault(of: code)))
        }
        return ended
    }

    /// Blocks until a transfer can continue, `wakeUp` is called, or the time is over.
    public func wait(ms: Int) {
        guard curl_multi_poll(handle, nil, 0, Int32(clamping: max(0, ms)), nil) == CURLM_OK else {
            // It has not waited, for instance for lack of memory: the caller's loop must not spin.
            usleep(10_000)
            return
        }
    }

    /// Ends the current or the next `wait`. From any thread.
    public func wakeUp() { curl_multi_wakeup(handle) }
}
