import Glibc
import Synchronization

/// An HTTP server on this machine with answers chosen by the test. Ends with the test.
final class LocalServer: Sendable {
    let port: UInt16
    private let listener: Int32
    private let answers: Mutex<[String: [UInt8]]>
    private let log = Mutex<[String]>([])

    /// - Parameter answers: complete answers by path; other paths get no answer until the server ends.
    init(_ answers: [String: String]) throws {
        self.answers = Mutex(answers.mapValues { Array($0.utf8) })
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(listener, pointer, length) == 0 && listen(listener, 16) == 0 && getsockname(listener, pointer, &length) == 0
            }
        }
        guard listener >= 0, bound else { throw Refused() }
        port = UInt16(bigEndian: address.sin_port)
        var thread = pthread_t()
        pthread_create(&thread, nil, { pointer in
            if let pointer { Unmanaged<LocalServer>.fromOpaque(pointer).takeRetainedValue().serve() }
            return nil
        }, Unmanaged.passRetained(self).toOpaque())
        pthread_detach(thread)
    }

    struct Refused: Error {}

    func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    /// Sets an answer that needs the port.
    func answer(_ path: String, _ text: String) { answers.withLock { $0[path] = Array(text.utf8) } }

    /// The requested paths.
    var asked: [String] { log.withLock { $0 } }

    func stop() { shutdown(listener, Int32(SHUT_RDWR)) }

    private func serve() {
        var silent: [Int32] = []
        while true {
            let peer = accept(listener, nil, nil)
            guard peer >= 0 else { break }
            var request: [UInt8] = []
            var byte: UInt8 = 0
            while !request.suffix(4).elementsEqual("\r\n\r\n".utf8), recv(peer, &byte, 1, 0) == 1 { request.append(byte) }
            let path = String(decoding: request, as: UTF8.self).split(separator: " ").dropFirst().first.map(String.init) ?? ""
            log.withLock { $0.append(path) }
            guard let answer = answers.withLock({ $0[path] }) else {
                silent.append(peer)
                continue
            }
            var sent = 0
            while sent < answer.count {
                let count = answer.withUnsafeBytes {
                    send(peer, $0.baseAddress.map { $0 + sent }, answer.count - sent, Int32(MSG_NOSIGNAL))
                }
                if count <= 0 { break }
                sent += count
            }
            close(peer)
        }
        for peer in silent { close(peer) }
        close(listener)
    }
}
