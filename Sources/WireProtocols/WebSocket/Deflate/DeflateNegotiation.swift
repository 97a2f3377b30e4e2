/// The parameters of one permessage-deflate element (RFC 7692 §7.1), of an offer or of a response.
struct DeflateParameters: Hashable {
    static let name = "permessage-deflate"

    /// The value of client_max_window_bits.
    enum ClientWindow: Hashable {
        /// Only in an offer: the server may choose.
        case open
        case bits(Int)
    }

    var serverNoContextTakeover = false
    var clientNoContextTakeover = false
    var serverWindowBits: Int?
    var clientWindow: ClientWindow?

    init() {}

    /// Nil if the offer must be declined, or the response must fail the connection. Reasons: another extension, an unknown or repeated
    /// parameter, an invalid value, or a missing one (§7.1).
    init?(_ element: WebSocketExtension) {
        guard element.name == Self.name else { return nil }
        var seen: Set<String> = []
        for parameter in element.parameters {
            guard seen.insert(parameter.name).inserted else { return nil }
            switch (parameter.name, parameter.value) {
            case ("server_no_context_takeover", nil): serverNoContextTakeover = true
            case ("client_no_context_takeover", nil): clientNoContextTakeover = true
            case ("server_max_window_bits", let value?):
                guard let bits = Self.windowBits(value) else { return nil }
                serverWindowBits = bits
            case ("client_max_window_bits", nil): clientWindow = .open
            case ("client_max_window_bits", let value?):
                guard let bits = Self.windowBits(value) else { return nil }
                clientWindow = .bits(bits)
            default: return nil
            }
        }
    }

    /// "a decimal integer value without leading zeroes between 8 to 15, inclusive" (§7.1.2)
    private static func windowBits(_ text: String) -> Int? {
        switch text {
        case "8": 8
        case "9": 9
        case "10": 10
        case "11": 11
        case "12": 12
        case "13": 13
        case "14": 14
        case "15": 15
        default: nil
        }
    }

    var element: WebSocketExtension {
        var element = WebSocketExtension(name: Self.name)
        func add(_ name: String, _ value: Int? = nil) {
            element.parameters.append(.init(name: name, value: value.map { String($0) }))
        }
        if serverNoContextTakeover { add("server_no_context_takeover") }
        if clientNoContextTakeover { add("client_no_context_takeover") }
        if let bits = serverWindowBits { add("server_max_window_bits", bits) }
        switch clientWindow {
        case .open: add("client_max_window_bits")
        case .bits(let bits): add("client_max_window_bits", bits)
        case nil: break
        }
        return element
    }
}

/// The negotiation of permessage-deflate (RFC 7692 §5, §7.1).
enum DeflateNegotiation {
    /// The server's choice among a client's offers: the first well-formed one for permessage-deflate. Every such offer is acceptable, as windows
    /// of all sizes are supported. Nil without one: the connection continues uncompressed.
    static func answer(
        _ offers: [WebSocketExtension], _ settings: DeflateSettings
    ) -> (response: WebSocketExtension, agreement: DeflateAgreement)? {
        guard let offer = offers.lazy.compactMap({ DeflateParameters($0) }).first else { return nil }
        let wanted = settings.bounded
        var agreement = DeflateAgreement()
        var response = DeflateParameters()

        // A server may include either of these unasked, and must include the first if requested (§7.1.1).
        response.serverNoContextTakeover = offer.serverNoContextTakeover || !wanted.takesOverContext
        response.clientNoContextTakeover = offer.clientNoContextTakeover || !wanted.takesOverContext
        agreement.server.takesOverContext = !response.serverNoContextTakeover
        agreement.client.takesOverContext = !response.clientNoContextTakeover

        // Our own window: no larger than requested, and stated if requested or smaller than 15 (§7.1.2.1).
        agreement.server.windowBits = min(offer.serverWindowBits ?? 15, wanted.windowBits)
        if offer.serverWindowBits != nil || agreement.server.windowBits < 15 {
            response.serverWindowBits = agreement.server.windowBits
        }
        // The client's window can be limited only if the client supports it (§7.1.2.2).
        switch offer.clientWindow {
        case nil: break
        case .open: agreement.client.windowBits = wanted.windowBits
        case .bits(let bits): agreement.client.windowBits = min(bits, wanted.windowBits)
        }
        if offer.clientWindow != nil, agreement.client.windowBits < 15 {
            response.clientWindow = .bits(agreement.client.windowBits)
        }
        return (response.element, agreement)
    }

    /// A client's offer.
    static func offer(_ settings: DeflateSettings) -> WebSocketExtension {
        let wanted = settings.bounded
        var offer = DeflateParameters()
        offer.serverNoContextTakeover = !wanted.takesOverContext
        offer.clientNoContextTakeover = !wanted.takesOverContext
        if wanted.windowBits < 15 { offer.serverWindowBits = wanted.windowBits }
        offer.clientWindow = wanted.windowBits < 15 ? .bits(wanted.windowBits) : .open
        return offer.element
    }

    /// Checks the server's response to `offer(settings)`. Throws for a response that the client must refuse (§7.1): another extension, more than
    /// one, malformed, or one that does not match the offer.
    static func check(
        _ chosen: [WebSocketExtension], _ settings: DeflateSettings?
    ) throws(WebSocketHandshake.Refusal) -> DeflateAgreement? {
        if chosen.isEmpty { return nil }
        guard let wanted = settings?.bounded, chosen.count == 1, let response = DeflateParameters(chosen[0]) else {
            throw .negotiation
        }
        var agreement = DeflateAgreement()
        guard response.serverNoContextTakeover || wanted.takesOverContext else { throw .negotiation }
        agreement.server.takesOverContext = !response.serverNoContextTakeover
        agreement.client.takesOverContext = !response.clientNoContextTakeover && wanted.takesOverContext
        agreement.server.windowBits = response.serverWindowBits ?? 15
        guard agreement.server.windowBits <= wanted.windowBits else { throw .negotiation }
        switch response.clientWindow {
        case nil: agreement.client.windowBits = wanted.windowBits
        case .open: throw .negotiation
        case .bits(let bits):
            guard bits <= wanted.windowBits else { throw .negotiation }
            agreement.client.windowBits = bits
        }
        return agreement
    }
}
