import DispatchNet
import Testing

@Suite(.timeLimit(.minutes(30))) struct EchoTests {
    @Test func echo_smallAndLarge_comesBackWhole() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        peer.write(Array("hello".utf8))
        #expect(peer.read(5) == Array("hello".utf8))
        for size in [1, 4096, 16 << 10, 100_000] {
            let bytes = pattern(size)
            peer.write(bytes)
            #expect(peer.read(size) == bytes)
        }
    }
}
