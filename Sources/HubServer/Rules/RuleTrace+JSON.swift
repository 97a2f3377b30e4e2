import JSONTree
import SecurityRules

extension RuleTrace {
    /// Bytes of JSON after which rules and parts are left out; the last rule is always included.
    static let jsonBytes = 1 << 20
    /// Most characters of a string value, and of a sub-expression's text.
    static let valueCharacters = 200

    /// The explanation for tools (docs/rules.md): the operation, the verdict, and every rule with the values of its parts.
    /// - Parameter position: whether the place can be found by its position; nil if that does not apply.
    func json(auth: Node, now: Int64, position: String? = nil) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 4096)
        writer.raw(isAllowed ? "{\"allowed\":true,\"operation\":" : "{\"allowed\":false,\"operation\":")
        switch operation {
        case .read(let path):
            writer.raw("\"read\",\"paths\":[")
            writer.string(path.description)
        case .count(let path):
            writer.raw("\"count\",\"paths\":[")
            writer.string(path.description)
        case .write(let paths):
            writer.raw("\"write\",\"paths\":[")
            for (i, path) in paths.prefix(Self.maxSteps).enumerated() {
                if i > 0 { writer.raw(",") }
                writer.string(path.description)
            }
        }
        writer.raw("],\"now\":")
        writer.int(now)
        writer.raw(auth.exists ? ",\"signedIn\":true,\"reason\":" : ",\"signedIn\":false,\"reason\":")
        writer.string(reason)
        if let position {
            writer.raw(",\"position\":")
            writer.string(position)
        }
        writer.raw(",\"rules\":[")
        var isCut = false
        for (i, step) in steps.enumerated() {
            // The last step decided.
            if writer.bytes.count > Self.jsonBytes, i < steps.count - 1 {
                isCut = true
                continue
            }
            if i > 0 { writer.raw(",") }
            writer.step(step, &isCut)
        }
        writer.raw("],\"rates\":[")
        for (i, counted) in rates.enumerated() {
            if writer.bytes.count > Self.jsonBytes {
                isCut = true
                break
            }
            if i > 0 { writer.raw(",") }
            writer.rate(counted)
        }
        writer.raw("],\"then\":[")
        for (i, write) in follows.enumerated() {
            if writer.bytes.count > Self.jsonBytes {
                isCut = true
                break
            }
            if i > 0 { writer.raw(",") }
            writer.follows(write)
        }
        if !continued.isEmpty || continuedRemovals != nil {
            writer.raw("],\"thenContinued\":[")
            for (i, rows) in continued.enumerated() {
                if i > 0 { writer.raw(",") }
                writer.continued(rows)
            }
            let removals = (continuedRemovals?.places ?? []) + (continuedRemovals?.shownTargets ?? [])
            for (i, path) in removals.enumerated() {
                if writer.bytes.count > Self.jsonBytes {
                    isCut = true
                    break
                }
                if i > 0 || !continued.isEmpty { writer.raw(",") }
                writer.continued(removalOf: path)
            }
        }
        if !expiring.isEmpty {
            writer.raw("],\"expires\":[")
            for (i, node) in expiring.enumerated() {
                if i > 0 { writer.raw(",") }
                writer.expiring(node)
            }
        }
        writer.raw(isCut || steps.count >= Self.maxSteps ? "],\"truncated\":true}\n" : "],\"truncated\":false}\n")
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func step(_ step: RuleTrace.Step, _ isCut: inout Bool) {
        raw("{\"rule\":")
        string("\(step.pattern)\(step.kind.rawValue)")
        raw(",\"path\":")
        string(step.path.description)
        raw(",\"kind\":")
        string(step.kind.rawValue)
        raw(",\"line\":")
        int(Int64(step.source.line))
        raw(",\"column\":")
        int(Int64(step.source.column))
        raw(",\"text\":")
        cut(step.source.text, to: 10 * RuleTrace.valueCharacters)
        switch step.outcome {
        case .allowed: raw(",\"result\":true")
        case .refused: raw(",\"result\":false")
        case .failed(let reason, _):
            raw(",\"result\":null,\"error\":")
            string("\(reason)")
        }
        raw(",\"parts\":[")
        for (i, part) in step.parts.enumerated() {
            if bytes.count > RuleTrace.jsonBytes {
                isCut = true
                break
            }
            if i > 0 { raw(",") }
            self.part(part)
        }
        raw("]}")
    }

    fileprivate mutating func rate(_ counted: RuleTrace.CountedRate) {
        raw("{\"rule\":")
        string(counted.rule)
        raw(",\"path\":")
        string(counted.path.description)
        raw(",\"perSecond\":")
        node(.number(counted.rate.perSecond))
        raw(",\"burst\":")
        int(Int64(counted.rate.burst))
        raw(",\"writes\":")
        int(Int64(counted.writes))
        raw("}")
    }

    fileprivate mutating func continued(_ rows: ContinuedRows) {
        raw("{\"rule\":")
        string(rows.rule)
        raw(",\"path\":")
        string(rows.places.description)
        raw(",\"value\":")
        rows.value.hasChildren ? raw("{}") : node(rows.value.leaf)
        raw("}")
    }

    fileprivate mutating func continued(removalOf path: Path) {
        raw("{\"removalOf\":")
        string(path.description)
        raw("}")
    }

    fileprivate mutating func follows(_ write: SystemWrite) {
        raw("{\"path\":")
        string(write.path.description)
        raw(",\"value\":")
        // Leave out large values: they are data, not part of the explanation.
        write.value.hasChildren ? raw("{}") : node(write.value.leaf)
        raw(",\"rule\":")
        string(write.rule)
        raw("}")
    }

    fileprivate mutating func expiring(_ node: ExpiringNode) {
        raw("{\"path\":")
        string(node.path.description)
        raw(",\"at\":")
        int(node.at)
        raw(",\"rule\":")
        string(node.rule)
        raw("}")
    }

    private mutating func part(_ part: RuleTrace.Part) {
        raw("{\"depth\":")
        int(Int64(part.depth))
        raw(",\"line\":")
        int(Int64(part.line))
        raw(",\"column\":")
        int(Int64(part.column))
        raw(",\"text\":")
        cut(part.text, to: RuleTrace.valueCharacters)
        switch part.value {
        case .null: raw(",\"type\":\"null\",\"value\":null")
        case .bool(let flag): raw(flag ? ",\"type\":\"boolean\",\"value\":true" : ",\"type\":\"boolean\",\"value\":false")
        case .number(let number):
            raw(",\"type\":\"number\",\"value\":")
            // NaN is no JSON.
            if number.isFinite { node(.double(number)) } else { raw("null") }
        case .string(let text):
            raw(",\"type\":\"string\",\"value\":")
            cut(text, to: RuleTrace.valueCharacters)
        case .object: raw(",\"type\":\"object\",\"value\":null")
        case .failed(let reason):
            raw(",\"type\":\"error\",\"value\":null,\"error\":")
            string("\(reason)")
        }
        raw("}")
    }

    private mutating func cut(_ text: String, to characters: Int) {
        let kept = text.unicodeScalars.prefix(characters)
        string(kept.endIndex < text.unicodeScalars.endIndex ? String(kept) + "…" : text)
    }
}
