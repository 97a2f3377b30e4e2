public import Mail

/// One delivery, ready to be sent.
public enum Delivery: Sendable {
    case request(OutboundRequest)
    case mail(Message)
}

/// Creates deliveries of notifications to devices. A value: it performs nothing. From any thread.
public struct OutboundChannels: Sendable {
    private let configuration: OutboundConfiguration
    private let signer: VAPIDSigner?

    /// - Parameter key: this hub's key for push services; nil, or a configuration without `subject`: no Web Push and UnifiedPush.
    public init(_ configuration: OutboundConfiguration, key: VAPIDKey?) {
        self.configuration = configuration
        signer = key.flatMap { key in configuration.subject.map { VAPIDSigner(key, subject: $0) } }
    }

    /// The public key with which browsers subscribe (`applicationServerKey`); nil without Web Push.
    public var applicationServerKey: String? { signer?.key.publicText }

    /// The delivery of one notification. Encryption for a push service takes about 0.2 ms.
    /// - Parameters:
    ///   - key: names the device among all devices, such as the path of its row: a webhook's deliveries to two devices have two ids.
    ///   - now: ms since the epoch. Create the delivery again for each attempt: signatures have a time.
    /// - Throws: the reason for a dead letter.
    public func delivery(of notification: Notification, to device: Device, key: String, now: Int64) throws(RequestFault) -> Delivery {
        let notification = withWholeAddress(notification)
        switch device {
        case .push(let subscription):
            guard let signer else { throw RequestFault("Web Push is off: the configuration has no \"subject\"") }
            return .request(try WebPushRequest.make(notification, for: subscription, signer, site: configuration.site, now: now))
        case .ntfy(let topic, let server):
            return .request(try NtfyRequest.make(notification, topic: topic, configuration.ntfyServer(named: server)))
        case .email(let address): return .mail(try NotificationMail.message(notification, to: address))
        case .webhook(let name, let row):
            let webhook = try configuration.webhook(named: name)
            guard webhook.acceptsDevices else { throw RequestFault("the webhook of this name does not accept devices") }
            let (id, body) = (String.id(of: [notification.id, key]), WebhookRequest.body(notification, device: row))
            return .request(try WebhookRequest.make(.webhook, id: id, body: body, to: webhook, now: now))
        }
    }

    /// One mail with several notifications.
    /// - Throws: the reason for a dead letter.
    public func digest(of notifications: [Notification], to address: MailAddress) throws(RequestFault) -> Delivery {
        .mail(try NotificationMail.digest(notifications.map(withWholeAddress), to: address))
    }

    /// A delivery of an event to a webhook: `{"type": "event", "event": …}`.
    /// - Parameters:
    ///   - id: the same for each attempt.
    ///   - event: one JSON value, which is not checked. The body with it has at most 1 MiB.
    /// - Throws: the reason for a dead letter.
    public func webhook(named name: String, id: String, event: [UInt8], now: Int64) throws(RequestFault) -> Delivery {
        let body = WebhookRequest.body(event: event)
        return .request(try WebhookRequest.make(.event, id: id, body: body, to: configuration.webhook(named: name), now: now))
    }

    /// A path becomes an address of the configured site.
    private func withWholeAddress(_ notification: Notification) -> Notification {
        guard let site = configuration.site, let path = notification.url, path.hasPrefix("/"), !path.hasPrefix("//") else {
            return notification
        }
        var whole = notification
        whole.url = site + path
        return whole
    }
}
