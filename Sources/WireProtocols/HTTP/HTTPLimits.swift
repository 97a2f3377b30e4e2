/// Limits of one HTTP message. Each has its own status (RFC 9110 §15.5, RFC 6585 §5).
public struct HTTPLimits: Sendable, Hashable {
    /// Bytes of the request line (or status line) without CRLF; more → 414. Default 16 KiB.
    package var startLineBytes = 16 * 1024
    /// Bytes of all field lines of one message with their line ends, trailers included; more → 431. Default 32 KiB.
    package var fieldBytes = 32 * 1024
    /// Number of field lines of one message, trailers included; more → 431. Default 100.
    package var fieldCount = 100
    /// Bytes of the decoded body; more → 413, before the excess is read. Default 256 MiB (contract §4.1, REST write).
    package var bodyBytes = 256 * 1024 * 1024
    /// Bytes of the decoded body for targets with small bodies (``HTTPRequestParser/init(limits:bodyBytes:)``). Default 1 MiB.
    package var smallBodyBytes = 1024 * 1024
    /// Bytes of one chunk-size line with its extensions; more → 400. Default 256.
    package var chunkLineBytes = 256

    public init() {}
}
