import HTTPTypes
import JSONTree
import WireProtocols

/// `GET /.push/key`: the key with which browsers subscribe to Web Push. Not a secret, so pages of all origins may read it.
///
///     {"applicationServerKey":"BNc…"}
extension Server {
    func pushKey(_ request: HTTPInboundRequest) -> [UInt8] {
        guard request.target.segments.elementsEqual([".push", "key"]) else { return nothingHere(request) }
        if request.method == .options { return RESTResponse.preflight(request) }
        func answer(_ status: HTTPResponse.Status, _ name: String, _ text: String, allow: String? = nil) -> [UInt8] {
            let body = JSONValue.object([.init(name, .string(text))]).bytes
            return RESTResponse.response(
                status, RESTResponse.Head(allow: allow), body, keepsAlive: request.keepsAlive, isHead: request.method == .head)
        }
        guard request.method == .get || request.method == .head else {
            return answer(.methodNotAllowed, "error", "Only GET and HEAD.", allow: "GET, HEAD, OPTIONS")
        }
        guard let key = deliveries.applicationServerKey else {
            let text = "Web Push is off: the configuration of this hub has no \"subject\" in its section \"outbound\"."
            return answer(.notFound, "error", text)
        }
        return answer(.ok, "applicationServerKey", key)
    }
}
