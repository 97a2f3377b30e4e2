import Dispatch
import HubEngine
import JSONTree
import Mail
import Outbound
import Scheduling
import Synchronization

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
    /// Deliveries that the sender does not know yet.
    private let preparing = Count()

    private final class Count: Sendable { let value = Atomic(0) }

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

    var capacity: Int { max(0, sender.capacity - preparing.value.load(ordering: .relaxed)) }

    func send(_ delivery: OutgoingDelivery, _ completion: @escaping @Sendable (DeliveryResult) -> Void) {
        preparing.value.add(1, ordering: .relaxed)
        queue.async {
            defer { preparing.value.subtract(1, ordering: .relaxed) }
            switch prepared(delivery) {
            case .success(let prepared): sender.send(prepared, on: queue) { completion(DeliveryResult($0)) }
            case .failure(let fault): completion(.refused(reason: fault.reason))
            }
        }
    }

    /// Ends all deliveries: those under way with `later`, the others and all further ones with `notAttempted`.
    func close() { sender.close() }

    /// Why a delivery can never be sent. Contains nothing of the message and no secret.
    private struct Fault: Error { let reason: String }

    private func prepared(_ delivery: OutgoingDelivery) -> Result<Outbound.Delivery, Fault> {
        do {
            switch delivery {
            case .notification(let notification, let row, let path):
                // The path names the row: one notification to two devices of a webhook has two ids.
                return .success(try channels.delivery(
                    of: Notification(notification), to: Device(row, addresses: addresses), key: "\(path)", now: scheduler.wallMs))
            case .digest(let notifications, let row, _):
                guard case .email(let address) = try Device(row, addresses: addresses) else {
                    return .failure(Fault(reason: "only devices of the kind email receive several notifications as one"))
                }
                return .success(try channels.digest(of: notifications.map(Notification.init), to: address))
            case .event(let id, let webhook, let event):
                var writer = JSONWriter()
                writer.node(event)
                return .success(try channels.webhook(named: webhook, id: id, event: writer.bytes, now: scheduler.wallMs))
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
