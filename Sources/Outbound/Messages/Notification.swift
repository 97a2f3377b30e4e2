/// A message to one person, for any channel. Texts of any length are accepted; each channel cuts what exceeds its own limit.
public struct Notification: Sendable, Equatable {
    /// Recognises a repetition: deliveries are at least once, and each attempt carries the same id. Any text; channels that restrict ids
    /// carry its hash.
    public var id: String
    /// Not empty where it is to be shown.
    public var title: String
    /// May be empty.
    public var body: String
    /// Where a tap leads: an http or https URL, or a path from `/` on, which becomes an address of the configured site. Mails, ntfy and
    /// devices that show messages themselves get no other; service workers and webhooks get any text.
    public var url: String?
    /// A later notification with the same tag replaces this one, before and after it was shown.
    public var tag: String?
    /// Shown at once and with sound, also when the device saves power.
    public var isUrgent: Bool
    /// Shown without sound or vibration.
    public var isSilent: Bool
    /// A tag of BCP 47 such as `el` or `pt-BR`.
    public var language: String?
    /// The number on the app's icon, from 0.
    public var badge: Int?
    /// Short words; ntfy shows those that it knows as emojis.
    public var labels: [String]
    /// When the notification is useless: ms since the epoch. Push services drop it then. Nil: after `defaultLifeMs`.
    public var expiresAt: Int64?

    /// How long a push service keeps a notification without `expiresAt`: four weeks, the longest that the large services accept.
    public static let defaultLifeMs: Int64 = 28 * 86_400_000

    public init(
        id: String, title: String, body: String = "", url: String? = nil, tag: String? = nil, isUrgent: Bool = false,
        isSilent: Bool = false, language: String? = nil, badge: Int? = nil, labels: [String] = [], expiresAt: Int64? = nil
    ) {
        self.id = id
        self.title = title
        self.body = body
        self.url = url
        self.tag = tag
        self.isUrgent = isUrgent
        self.isSilent = isSilent
        self.language = language
        self.badge = badge
        self.labels = labels
        self.expiresAt = expiresAt
    }

    /// Seconds for which a push service keeps it, rounded up: 0 when it has expired, at most four weeks.
    func lifeSeconds(now: Int64) -> Int64 {
        guard let expiresAt else { return Self.defaultLifeMs / 1000 }
        let (left, overflows) = expiresAt.subtractingReportingOverflow(now)
        guard !overflows else { return expiresAt > now ? Self.defaultLifeMs / 1000 : 0 }
        return (min(max(0, left), Self.defaultLifeMs) + 999) / 1000
    }
}
