public import JSONTree

/// The writes in the body of a REST request.
public enum RESTBody: Sendable {
    /// PUT, PATCH, DELETE. Places are absolute.
    case write([TreeWrite])
    /// POST: a child under a key that the server makes.
    case push(WriteValue)

    /// Parses the body of a write request. O(bytes)
    public init(
        _ request: RESTRequest, _ bytes: UnsafeRawBufferPointer, _ limits: TreeWriteLimits = TreeWriteLimits()
    ) throws(RESTRefusal) {
        let place = TreePlace(path: request.path, part: request.part)
        if request.method == .delete {
            self = .write([TreeWrite(place.path, part: place.part, WriteValue(.null))])
            return
        }
        if request.method == .post, place.part == .priority { throw .badPath }
        guard bytes.contains(where: { $0 > 0x20 }) else { throw .noData }
        if let size = request.writeSize, bytes.count > size.bytes { throw .writeTooBig }
        let isPatch = request.method == .patch
        var fault: RequestFault?
        let body: RESTBody?
        do {
            var reader = JSONReader(bytes)
            // The SDKs' command-line tool removes a place with a `null`.
            if isPatch, try reader.peek() != .null {
                if place.part == .priority { throw RESTRefusal.noObject }
                let entries = try TreeWrite.entries(&reader, base: place.path, limits, &fault)
                body = .write(entries.map { $0.below(place.path) })
            } else {
                let isPush = request.method == .post
                // The key of the pushed child is not known yet.
                if !isPush, !(try TreeWrite.isPermitted(place.path, &reader, limits, &fault)) { throw RESTRefusal.permissionDenied }
                let value = try TreeWrite.value(&reader, at: place, depth: place.path.depth + (isPush ? 1 : 0), limits, &fault)
                body = value.map { isPush ? .push($0) : .write([TreeWrite(place.path, part: place.part, $0)]) }
            }
            try reader.expectEnd()
        } catch let refusal as RESTRefusal {
            throw refusal
        } catch {
            if fault == .denied { throw .permissionDenied }
            throw isPatch ? .noObject : .badData
        }
        if let fault { throw Self.refusal(fault, bytes) }
        guard let body else { throw .badData }
        self = body
    }

    private static func refusal(_ fault: RequestFault, _ bytes: UnsafeRawBufferPointer) -> RESTRefusal {
        switch fault {
        case .denied: return .permissionDenied
        case .data(.overBudget): return .overBudget
        case .data(.invalidKey(_, let offset)):
            var (line, start) = (1, 0)
            for at in 0..<min(offset, bytes.count) where bytes[at] == UInt8(ascii: "\n") { (line, start) = (line + 1, at + 1) }
            return .bad("Invalid data; couldn't parse key beginning at \(line):\(offset - start + 1). Key value can't be empty or contain "
                + "$ # [ ] / or .")
        case .path(.invalidKey): return .noObject
        default: return .bad(fault.text)
        }
    }
}
