import Testing
@testable import WireProtocols

/// The move from polls to a WebSocket (contract §1.8, checks 27, 28).
@Suite(.timeLimit(.minutes(30))) struct TransportSwitchTests {
    private static func request(_ number: Int64) -> RealtimeMessage { .request(RealtimeRequest(number: number, action: .stats)) }

    private static func shown(_ actions: [TransportSwitch.Action]?) -> [String]? {
        actions?.map { action in if case .submit(let request) = action { "submit \(request.number)" } else { "\(action)" } }
    }

    @Test func check28_move_acknowledgesOnceAndKeepsTheOrder() {
        var transport = TransportSwitch()
        #expect(Self.shown(transport.receiveByPoll(Self.request(1))) == ["submit 1"])
        #expect(Self.shown(transport.join()) == ["acknowledgeOnSocket"])
        #expect(Self.shown(transport.join()) == nil)
        #expect(Self.shown(transport.receiveOnSocket(.control(.ping), bytes: 9)) == ["pongOnSocket"])
        #expect(Self.shown(transport.receiveOnSocket(.control(.switchAck), bytes: 9)) == [])
        // The client's requests 4 and 5 on the socket overtake 2 and 3 by poll.
        #expect(Self.shown(transport.receiveOnSocket(Self.request(4), bytes: 9)) == [])
        #expect(Self.shown(transport.receiveByPoll(Self.request(2))) == ["submit 2"])
        #expect(Self.shown(transport.receiveOnSocket(Self.request(5), bytes: 9)) == [])
        #expect(Self.shown(transport.receiveByPoll(Self.request(3))) == ["submit 3"])
        #expect(!transport.hasMoved)
        #expect(Self.shown(transport.receiveByPoll(.control(.endTransmission))) == ["endPolling", "submit 4", "submit 5"])
        #expect(transport.hasMoved)
        #expect(Self.shown(transport.receiveOnSocket(Self.request(6), bytes: 9)) == ["submit 6"])
        #expect(Self.shown(transport.receiveByPoll(Self.request(7))) == [])
        #expect(Self.shown(transport.join()) == nil)
    }

    @Test func pings_areAnsweredWhereTheyCame() {
        var transport = TransportSwitch()
        #expect(Self.shown(transport.receiveByPoll(.control(.ping))) == ["pongByPoll"])
        _ = transport.join()
        #expect(Self.shown(transport.receiveByPoll(.control(.ping))) == ["pongByPoll"])
        _ = transport.receiveByPoll(.control(.endTransmission))
        #expect(Self.shown(transport.receiveOnSocket(.control(.ping), bytes: 9)) == ["pongOnSocket"])
    }

    @Test func socketLostBeforeTheMove_leavesPolling() {
        var transport = TransportSwitch()
        _ = transport.join()
        #expect(Self.shown(transport.socketLost()) == [])
        #expect(Self.shown(transport.receiveByPoll(Self.request(1))) == ["submit 1"])
        #expect(Self.shown(transport.join()) == ["acknowledgeOnSocket"])
    }

    @Test func socketLostWithRequestsWaiting_endsTheSession() {
        var transport = TransportSwitch()
        _ = transport.join()
        _ = transport.receiveOnSocket(Self.request(1), bytes: 9)
        #expect(Self.shown(transport.socketLost()) == ["end"])
    }

    @Test func endOfPollingWithoutASocket_endsTheSession() {
        var transport = TransportSwitch()
        #expect(Self.shown(transport.receiveByPoll(.control(.endTransmission))) == ["end"])
        var moved = TransportSwitch()
        _ = moved.join()
        _ = moved.receiveByPoll(.control(.endTransmission))
        #expect(Self.shown(moved.socketLost()) == ["end"])
    }

    @Test func waitingRequests_haveALimit() {
        var limits = LongPollLimits()
        limits.joiningBytes = 20
        var transport = TransportSwitch(limits: limits)
        _ = transport.join()
        #expect(Self.shown(transport.receiveOnSocket(Self.request(1), bytes: 20)) == [])
        #expect(Self.shown(transport.receiveOnSocket(Self.request(2), bytes: 1)) == ["overflow"])
    }
}
