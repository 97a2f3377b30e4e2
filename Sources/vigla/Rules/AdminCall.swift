import Dispatch
import DispatchNet
import Glibc
import HTTPTypes
import Synchronization
import ViglaClient
import WireProtocols

/// HTTP requests to a hub's administrative endpoints.
enum AdminCall {
    /// Timeout of a response in ms.
    private static let patienceMs = 600_000

    /// - Parameter answered: called with the status and the body; ends the program.
    static func run(
        _ method: StaticString, _ target: String, at address: HubAddress, tls: TLSClient?, credential: String?, body: [UInt8],
        _ answered: (Int, [UInt8]) -> Never
    ) -> Never {
        let (status, answer) = ask(method, target, at: address, tls: tls, credential: credential, body: body)
        answered(status, answer)
    }

    /// Sends a request and waits for the status and the body; ends the program when no response arrives.
    static func ask(
        _ method: StaticString, _ target: String, at address: HubAddress, tls: TLSClient?, credential: String?, body: [UInt8]
    ) -> (status: Int, body: [UInt8]) {
        signal(SIGPIPE, SIG_IGN)
        let group: EventLoopGroup
        // Requests and responses may have any size.
        var net = NetSettings()
        (net.outboundHardBytes, net.outboundTotalBytes) = (1 << 40, 1 << 40)
        do throws(NetError) { group = try EventLoopGroup(count: 1, settings: net) } catch { fail("\(error)") }
        let loop = group.next()
        var head = "\(method) \(target) HTTP/1.1\r\nHost: \(address)\r\nConnection: close\r\nContent-Length: \(body.count)\r\n"
        if !body.isEmpty { head += "Content-Type: application/json\r\n" }
        if let credential {
            guard credential.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { fail("a secret is one word") }
            head += "Authorization: Bearer \(credential)\r\n"
        }
        let request = Array((head + "\r\n").utf8) + body
        let answer = Answer()
        loop.schedule(afterMs: patienceMs, everyMs: nil) {
            if !answer.isGiven { fail("no answer from \(address) within \(patienceMs / 1000) seconds") }
        }
        connect(to: address.host, port: address.port, on: loop, tls: tls) { connection in
            connection.send(request)
            return Exchange(address, answer)
        } failed: { error in
            fail(ConnectionAdvice.text(.unreachable(ClientError.text(error)), from: address))
        }
        return answer.wait()
    }

    /// Passes a response from the loop to the waiting thread.
    private final class Answer: Sendable {
        private let given = Mutex<(status: Int, body: [UInt8])?>(nil)
        private let isThere = DispatchSemaphore(value: 0)

        func give(_ status: Int, _ body: [UInt8]) {
            given.withLock { $0 = (status, body) }
            isThere.signal()
        }

        var isGiven: Bool { given.withLock { $0 != nil } }

        func wait() -> (status: Int, body: [UInt8]) {
            isThere.wait()
            return given.withLock { $0 } ?? (0, [])
        }
    }

    private final class Exchange: ConnectionHandler {
        private let address: HubAddress
        private let answer: Answer
        private var parser = HTTPResponseParser(limits: Exchange.limits)
        private var receivedBytes = 0
        private var progress = ProgressLine("received")
        private static var limits: HTTPLimits {
            var limits = HTTPLimits()
            limits.bodyBytes = 1 << 40
            return limits
        }

        init(_ address: HubAddress, _ answer: Answer) { (self.address, self.answer) = (address, answer) }

        func received(_ bytes: UnsafeMutableRawBufferPointer) {
            receivedBytes += bytes.count
            if receivedBytes > 1 << 20 { progress.show(receivedBytes >> 20, unit: "MiB") }
            switch parser.receive(UnsafeRawBufferPointer(bytes)).event {
            case .incomplete: break
            case .response(let response):
                if receivedBytes > 1 << 20 { progress.end() }
                answer.give(response.status.code, response.body)
            case .failure: fail(ConnectionAdvice.text(.badAnswer("\(address) does not answer in HTTP/1.1"), from: address))
            }
        }

        func ended(_ reason: CloseReason) {
            if !answer.isGiven { fail(ConnectionAdvice.text(.unreachable("\(address) ended the connection (\(reason.name))"), from: address)) }
        }
    }
}

extension AdminCall {
    /// Prints a sentence on why a request failed, with what to type, and ends the program.
    static func refused(_ status: Int, _ body: [UInt8], by address: HubAddress, _ credential: AdminCredential, advice: String) -> Never {
        if status == 401 || status == 403 { fail("\(address) refuses this (\(status)). \(credential.refused)") }
        let text = UserText.plain(ClientError.reason(String(decoding: body.prefix(2_000), as: UTF8.self)))
        fail("\(address) answers \(status)\(text.isEmpty ? "" : ": \(text)")\n"
            + (ConnectionAdvice.isUnknownNamespace(status, text) ? ConnectionAdvice.otherNamespace : advice))
    }
}

extension HubAddress {
    /// Appended to a query that already has a parameter.
    var namespaceItem: String { namespace.map { "&ns=\($0)" } ?? "" }
}
