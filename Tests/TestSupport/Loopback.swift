import Glibc

/// Blocking TCP sockets to this machine, using system calls only: independent of the code under test.
package enum Loopback {
    /// A new socket. The caller closes it, whether or not it is connected.
    /// - Parameters:
    ///   - receiveBuffer: bytes that the system buffers for a client that does not read.
    ///   - patienceSeconds: timeout of a read, so that a broken server fails a test instead of hanging it.
    package static func connect(
        port: UInt16, receiveBuffer: Int32? = nil, patienceSeconds: Int = 20
    ) -> (descriptor: Int32, isConnected: Bool) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        if var size = receiveBuffer { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size)) }
        var patience = timeval(tv_sec: patienceSeconds, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        return (descriptor, connect(descriptor, port: port))
    }

    /// Whether an existing socket could be connected to the port.
    package static func connect(_ descriptor: Int32, port: UInt16) -> Bool {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    /// Whether all bytes could be sent.
    package static func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        bytes.withUnsafeBytes { all in
            var rest = all[...]
            while !rest.isEmpty {
                let part = UnsafeRawBufferPointer(rebasing: rest)
                let count = Glibc.send(descriptor, part.baseAddress, part.count, Int32(MSG_NOSIGNAL))
                guard count > 0 else { return false }
                rest = rest.dropFirst(count)
            }
            return true
        }
    }
}
