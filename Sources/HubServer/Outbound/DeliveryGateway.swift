import Dispatch
import HubEngine
import JSONTree
import Mail
import Outbound
import Scheduling

/// Sends the engine's deliveries through the channels of the configuration. It stores nothing: the engine keeps what is to be sent again.
///
///     send ─► own queue: read the row, sign and encrypt ─► OutboundSender ─► result, on the same queue
struct DeliveryGateway: DeliverySender {
    private let channels: OutboundChannels
    private let addresses: AddressGuard
    private let sender: OutboundSender
    private let scheduler: Scheduler
    /// Encryption takes 0.2 ms, and a webhook's body has up to 1 MiB: neither may block the engine's queues.
    private let queue = DispatchQueue(label: "vigla.deliveries", qos: .utility)
    let counts = DeliveryCounts()

    /// - Parameters:
    ///   - key: this hub's key for push services; nil: no Web Push.
    ///   - mail: how mails leave; nil: mails are refused.
    init(_ configuration: OutboundConfiguration, key: VAPIDKey?, mail: (any MailTransport)?, scheduler: Scheduler) {
        channels = OutboundChannels(configuration, key: key)
        addresses = configuration.addresses
        sender = OutboundSender(configuration, mail: mail, scheduler: scheduler)
        self.scheduler = scheduler
    }

    /// The public key with which browsers subscribe; nil without Web Push.
    var applicationServerKey: String? { channels.applicationServerKey }

    var capacity: Int { max(0, sender.capacity - counts.preparing) }
    var mailCapacity: Int { max(0, sender.mailCapacity - counts.preparing) }

    func send(_ delivery: OutgoingDelivery, _ completion: @escaping @Sendable (DeliveryResult) -> Void) {
        counts.begin()
        queue.async {
            switch prepared(delivery) {
            case .success(let (kind, prepared)):
                sender.send(prepared, on: queue) { outcome in
                    counts.end(kind, outcome)
                    completion(DeliveryResult(outcome))
                }
                counts.handedOver()
            case .failure(let fault):
                counts.leaveOut()
                completion(.refused(reason: fault.reason))
            }
        }
    }

    /// Ends all deliveries: those under way with `later`, the others and all further ones with `notAttempted`.
    func close() { sender.close() }

    /// Why a delivery can never be sent. Contains nothing of the message and no secret.
    private struct Fault: Error { let reason: String }

    private func prepared(_ delivery: OutgoingDelivery) -> Result<(DeliveryCounts.Kind, Outbound.Delivery), Fault> {
        do {
            switch delivery {
            case .notification(let notification, let row, let path):
                let device = try Device(row, addresses: addresses)
                // The path names the row: one notification to two devices of a webhook has two ids.
                return .success((DeliveryCounts.Kind(device), try channels.delivery(
                    of: Notification(notification), to: device, key: "\(path)", now: scheduler.wallMs)))
            case .digest(let notifications, let row, _):
                guard case .email(let address) = try Device(row, addresses: addresses) else {
                    return .failure(Fault(reason: "only devices of the kind email receive several notifications as one"))
                }
                return .success((.email, try channels.digest(of: notifications.map(Notification.init), to: address)))
            case .event(let id, let webhook, let event):
                var writer = JSONWriter()
                writer.node(event)
                let now = scheduler.wallMs
                return .success((.event, try channels.webhook(named: webhook, id: id, event: writer.bytes, now: now)))
            }
        } catch {
            return .failure(Fault(reason: "\(error)"))
        }
    }
}

extension Notification {
    init(_ notification: OutgoingNotification) {
        self.init(
            id: notification.id, title: notification.title, body: notification.body, url: notification.url, tag: notification.tag,
            isUrgent: notification.isUrgent, language: notification.language, expiresAt: notification.expiresAt)
    }
}

extension DeliveryResult {
    init(_ outcome: DeliveryOutcome) {
        self =
            switch outcome {
            case .delivered: .delivered
            case .gone: .gone
            case .later(let afterMs, let reason): .later(afterMs: afterMs, reason: reason)
            case .notAttempted(let reason): .notAttempted(reason: reason)
            case .refused(let reason): .refused(reason: reason)
            }
    }
}
