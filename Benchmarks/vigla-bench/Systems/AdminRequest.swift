import CLinux
import Glibc

/// Writes a value over REST with a development hub's administrator credential, and waits for the answer.
func putAsAdmin(_ target: String, _ value: String, port: UInt16) throws {
    let fd = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    guard fd >= 0 else { throw BenchError.system("socket", errno: errno) }
    defer { close(fd) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let result = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(fd, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
    }
    guard result == 0 else { throw BenchError.system("connect", errno: errno) }
    let head = "PUT \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\nContent-Length: \(value.utf8.count)\r\n"
        + "Connection: close\r\n\r\n"
    try LoadPeer(index: 0, fd: fd).sendRaw(Array(head.utf8) + Array(value.utf8))
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4_096)
    while case let count = recv(fd, &buffer, buffer.count, 0), count > 0 { answer += buffer[..<count] }
    let text = String(decoding: answer, as: UTF8.self)
    guard text.hasPrefix("HTTP/1.1 20") else { throw BenchError.unexpected("PUT \(target): \(text.prefix(500))") }
}
