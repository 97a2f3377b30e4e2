internal import DispatchNet
internal import WireProtocols

/// Establishing, losing and re-establishing the connection. Everything here runs on the loop.
extension HubClient {
    func attempt() {
        phase = .connecting
        onState?(.connecting)
        if address.isSecure, tlsClient == nil {
            do throws(TLSError) {
                if let given = settings.tls { tlsClient = given } else { tlsClient = try TLSClient() }
            } catch { return finish(.unreachable("\(error)")) }
        }
        DispatchNet.connect(to: address.host, port: address.port, on: loop, tls: tlsClient) { [self] connection in
            Link(connection, self)
        } failed: { [self] error in
            lost(.unreachable(ClientError.text(error)))
        }
    }

    /// Called when the hub has accepted the observe protocol.
    func opened(_ link: Link) {
        guard case .connecting = phase else { return link.detach() }
        phase = .open(link)
        onState?(.connected)
        carryOut(observeState.opened())
    }

    func received(_ message: ObserveMessage) {
        backoff.reset()
        if let action = observeState.received(message) { carryOut(action) }
    }

    /// Called when the connection could not be established, or has ended.
    func lost(_ error: ClientError) {
        switch phase {
        case .idle, .waiting, .closed: return
        case .connecting, .open: break
        }
        guard settings.reconnects else { return finish(error) }
        let retryMs = backoff.nextMs()
        phase = .waiting(loop.schedule(afterMs: retryMs, everyMs: nil) { [self] in
            if case .waiting = phase { attempt() }
        })
        // Report the state before the failures: requests that a handler sends now wait for the next connection.
        let actions = observeState.lost()
        onState?(.waiting(error, retryMs: retryMs))
        carryOut(actions)
    }

    func finish(_ error: ClientError) {
        switch phase {
        case .closed: return
        case .open(let link): link.detach()
        case .waiting(let timer): timer.cancel()
        case .idle, .connecting: break
        }
        phase = .closed
        carryOut(observeState.close(error))
        onState?(.closed)
    }

    // MARK: actions

    func carryOut(_ actions: [ObserveClientState.Action]) {
        for action in actions { carryOut(action) }
    }

    func carryOut(_ action: ObserveClientState.Action) {
        switch action {
        case .send(let request): if case .open(let link) = phase { link.send(request) }
        case .answer(let done, let result): done(result)
        case .notify(let handler, let observation): handler(observation)
        case .notifyObserver(let id, let handler, let observations):
            for observation in observations where observeState.isObserving(id) { handler(observation) }
        case .credentialRefused(let failure): onState?(.credentialRefused(failure))
        case .giveUp(let reason): if case .open(let link) = phase { link.fail(.badAnswer(reason)) }
        }
    }
}
