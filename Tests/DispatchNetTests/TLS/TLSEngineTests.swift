@testable import DispatchNet
import Glibc
import TestCertificates
import Testing

/// Two engines connected through memory.
@Suite(.timeLimit(.minutes(30))) struct TLSEngineTests {
    @Test func handshake_byteByByte_opensBothSides_andRecordsGoBothWays() throws {
        let pair = try Pair()
        pair.chunk = 1
        pair.run()
        #expect(pair.client.engine.state == .open)
        #expect(pair.server.engine.state == .open)
        let (question, answer) = (pattern(3000), pattern(40_000, seed: 7))
        pair.client.say([question])
        pair.server.say([answer])
        pair.run()
        #expect(pair.server.heard == question)
        #expect(pair.client.heard == answer)
    }

    @Test func smallFrames_areJoinedToFullRecords() throws {
        let pair = try Pair()
        pair.run()
        pair.server.say((0..<1000).map { _ in pattern(50) })
        // 50,000 bytes: three full records and a rest.
        #expect(Self.records(pair.server.outbox).map(\.count).filter { $0 > 16_384 }.count == 3)
        #expect(Self.records(pair.server.outbox).count == 4)
        pair.run()
        #expect(pair.client.heard.count == 50_000)
    }

    @Test func mixedFrames_arriveInOrder() throws {
        let pair = try Pair()
        pair.run()
        let frames = [1, 16_384, 5, 40_000, 3, 16_383, 1, 2, 100_000, 7].enumerated().map { pattern($1, seed: UInt64($0 + 1)) }
        pair.server.say(frames)
        pair.run()
        let isWhole = pair.client.heard == frames.flatMap { $0 }
        #expect(isWhole)
    }

    @Test func handshake_cutAtAnyByte_neverOpensTheServer() throws {
        let hello = try Pair().client.outbox
        #expect(hello.count > 100)
        for length in 0..<hello.count {
            let server = try Side(server: "server")
            server.receive(Array(hello[..<length]))
            #expect(server.engine.state == .handshaking)
            #expect(server.outbox.isEmpty)
        }
        // The client's second flight.
        let whole = try Pair()
        whole.server.receive(whole.client.dequeueOutbox())
        whole.client.receive(whole.server.dequeueOutbox())
        for length in 0..<whole.client.outbox.count {
            let pair = try Pair()
            pair.server.receive(pair.client.dequeueOutbox())
            pair.client.receive(pair.server.dequeueOutbox())
            pair.server.receive(Array(pair.client.outbox.prefix(length)))
            #expect(pair.server.engine.state == .handshaking)
        }
    }

    @Test func handshake_withAnyByteChanged_isRefusedOrOpensWithoutHarm() throws {
        var refused = 0
        for at in 0..<(try Pair().client.outbox.count) {
            let pair = try Pair()
            pair.client.outbox[at] ^= 0x55
            pair.run()
            // Either both agree on one transcript, which excludes the record's header, or neither opens (RFC 8446 §4.4.4).
            #expect(at < 5 || !(pair.client.engine.state == .open && pair.server.engine.state == .open))
            if pair.server.engine.state == .failed { refused += 1 }
        }
        #expect(refused > 50)
    }

    @Test func record_withAnyByteChanged_endsTheConnection() throws {
        let length = try { () throws -> Int in
            let pair = try Pair()
            pair.run()
            pair.client.say([pattern(20)])
            return pair.client.outbox.count
        }()
        for at in 0..<length {
            let pair = try Pair()
            pair.run()
            pair.client.say([pattern(20)])
            pair.client.outbox[at] ^= 1
            pair.run()
            #expect(pair.server.heard.isEmpty)
            // A longer length just waits for more.
            #expect(pair.server.engine.state == .failed || at == 4 || at == 3)
        }
    }

    @Test(arguments: [
        ("server", "other.example", "hostname mismatch"), ("server", "127.0.0.2", "IP address mismatch"),
        ("elsewhere", "localhost", "hostname mismatch"),
        ("expired", "localhost", "certificate has expired"),
    ]) func client_refuses(_ certificate: String, _ host: String, _ reason: String) throws {
        let pair = try Pair(certificate: certificate, host: host)
        pair.run()
        #expect(pair.client.end == .failed(reason))
        #expect(pair.client.engine.state == .failed)
        #expect(pair.server.engine.state == .failed)
    }

    @Test func client_withoutTheAuthority_refuses() throws {
        let pair = try Pair(trusting: false)
        pair.run()
        #expect(pair.client.end == .failed("unable to get local issuer certificate"))
    }

    @Test func goodbye_isHeardOnce_afterEverythingBeforeIt() throws {
        let pair = try Pair()
        pair.run()
        pair.server.say([pattern(100)])
        pair.server.engine.sendCloseNotify()
        pair.server.collect()
        pair.server.engine.sendCloseNotify()
        #expect(pair.server.wire.outgoing.isEmpty)
        pair.run()
        #expect(pair.client.heard == pattern(100))
        #expect(pair.client.end == .finished)
        // The other direction is still open (RFC 8446 §6.1).
        pair.client.say([pattern(10)])
        #expect(!pair.client.outbox.isEmpty)
    }

    @Test func failureOfAnother_onTheSameThread_isNotThisOnes() throws {
        let pair = try Pair()
        pair.run()
        pair.client.say([[1, 2]])
        // OpenSSL leaves its refusal of the name in the thread's queue.
        #expect(throws: NetError.self) { _ = try Side(clientOf: String(repeating: "a", count: 300), trusting: true) }
        pair.run()
        #expect(pair.server.heard == [1, 2] && pair.server.end == nil)
    }

    @Test func recordsThatWereSent_areLetGo_thoughSomeAlwaysWait() throws {
        let channel = TLSChannel(try Side(server: "server").engine, plainHTTPAnswer: []) { Scripted($0) }
        let record = pattern(1000)
        record.withUnsafeBytes { channel.storeUnsent($0) }
        for _ in 0..<1000 {
            record.withUnsafeBytes { channel.storeUnsent($0) }
            channel.consumeUnsent(1000)
            #expect(channel.unsentBytes == 1000 && channel.heldBytes <= 4000)
            channel.withUnsent { #expect($0.elementsEqual(record)) }
        }
    }

    @Test func http_isRecognised() throws {
        for text in [
            "GET / HTTP/1.1\r\n\r\n", "POST /a HTTP/1.1\r\n", "HEAD / HTTP/1.1\r\n", "PUT /x HTTP/1.1\r\n", "CONNECT a:1 HTTP/1.1\r\n",
        ] {
            let server = try Side(server: "server")
            server.receive(Array(text.utf8))
            #expect(server.end == .plainHTTP)
        }
    }

    private static func records(_ bytes: [UInt8]) -> [[UInt8]] {
        var found: [[UInt8]] = []
        var rest = bytes[...]
        while rest.count >= 5 {
            let length = 5 + Int(rest[rest.startIndex + 3]) << 8 + Int(rest[rest.startIndex + 4])
            found.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        return found
    }
}

/// An engine, its output, and its received data.
private final class Side {
    let engine: TLSEngine
    let wire: TLSWire
    var outbox: [UInt8] = []
    var heard: [UInt8] = []
    var end: TLSEngine.End?

    init(server certificate: String) throws {
        wire = try TLSWire(readBufferBytes: 64 << 10)
        engine = try TLSEngine(TestContexts.server(certificate), through: wire)
    }

    init(clientOf host: String, trusting trusts: Bool) throws {
        wire = try TLSWire(readBufferBytes: 64 << 10)
        engine = try TLSEngine(trusts ? TestContexts.client() : TLSClient().context, expecting: host, through: wire)
        record(engine.start(through: wire))
    }

    func receive(_ bytes: [UInt8]) { record(bytes.withUnsafeBytes { engine.receive($0, through: wire) }) }

    func say(_ frames: [[UInt8]]) {
        let copies = frames.map { frame in
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: frame.count, alignment: 1)
            copy.copyBytes(from: frame)
            return iovec(iov_base: copy.baseAddress, iov_len: frame.count)
        }
        let taken = engine.encrypt(copies, copies.count, limit: .max, through: wire)
        for copy in copies { copy.iov_base.deallocate() }
        #expect(taken == frames.map(\.count).reduce(0, +))
        collect()
    }

    func collect() {
        outbox += wire.outgoing
        wire.clearOutgoing()
    }

    func dequeueOutbox() -> [UInt8] {
        defer { outbox = [] }
        return outbox
    }

    private func record(_ step: TLSEngine.Step) {
        heard += step.plaintext
        if let found = step.end { end = found }
        collect()
    }
}

private final class Pair {
    let client: Side
    let server: Side
    /// How many bytes arrive at a time.
    var chunk = 64 << 10

    init(certificate: String = "server", host: String = "localhost", trusting trusts: Bool = true) throws {
        client = try Side(clientOf: host, trusting: trusts)
        server = try Side(server: certificate)
    }

    /// Transfers bytes in both directions until neither side has any.
    func run() {
        while !client.outbox.isEmpty || !server.outbox.isEmpty {
            let (up, down) = (client.dequeueOutbox(), server.dequeueOutbox())
            for at in stride(from: 0, to: up.count, by: min(chunk, max(1, up.count))) {
                server.receive(Array(up[at..<min(up.count, at + min(chunk, up.count))]))
            }
            for at in stride(from: 0, to: down.count, by: min(chunk, max(1, down.count))) {
                client.receive(Array(down[at..<min(down.count, at + min(chunk, down.count))]))
            }
        }
    }
}
