import JSONTree

/// What a request for an account was refused for, as it goes over the wire (accounts contract §3).
///
///     {"error":{"code":400,"message":"WEAK_PASSWORD : Password should be at least 8 characters",
///               "errors":[{"message":"…","reason":"invalid","domain":"global"}]}}
///
/// The contract's own codes are plain names: `AccountError("EMAIL_EXISTS")`.
public struct AccountError: Error, Sendable, Equatable, CustomStringConvertible {
    /// HTTP status; domain errors are all 400.
    public var status = 400
    /// `EMAIL_EXISTS`
    public var code: String
    /// What follows ` : `; must not hold ` : ` itself.
    public var detail: String?
    /// `INVALID_ARGUMENT`, `UNAUTHENTICATED`, … : of errors that are not the domain's.
    public var statusName: String?
    public var reason = "invalid"

    public init(_ code: String, _ detail: String? = nil) {
        self.code = code
        self.detail = detail
    }

    public init(status: Int, _ statusName: String, _ message: String, reason: String = "invalid") {
        self.status = status
        self.statusName = statusName
        self.reason = reason
        code = message
    }

    /// `CODE` or `CODE : detail`.
    public var message: String { detail.map { "\(code) : \($0)" } ?? code }

    public var description: String { message }

    public var body: [UInt8] {
        var error: [JSONValue.Member] = [.init("code", .int(Int64(status))), .init("message", .string(message))]
        error.append(.init("errors", [["message": .string(message), "reason": .string(reason), "domain": "global"]]))
        error.add("status", statusName)
        return JSONValue.object([.init("error", .object(error))]).bytes
    }
}
