import SecurityRules

/// A rules file as `serve` and `rules check` read it.
enum RulesSource {
    /// Everything wrong with the file, one line each, beginning with the file's name.
    struct Fault: Error { let lines: [String] }

    static func read(_ path: String) -> Result<RuleSet, Fault> {
        switch WholeFile.read(path) {
        case .failure(let fault): return .failure(Fault(lines: ["\(path): \(fault)"]))
        case .success(let bytes):
            do throws(RulesErrors) {
                return .success(try RuleSet(parsing: String(decoding: bytes, as: UTF8.self)))
            } catch {
                return .failure(Fault(lines: error.errors.map { "\(path):\($0)" }))
            }
        }
    }

    /// How many rules a text that has been accepted holds: its members whose name begins with a dot.
    static func count(in text: String) -> Int {
        var count = 0
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            switch (byte, rest.first) {
            case (UInt8(ascii: "/"), UInt8(ascii: "/")):
                rest = rest.drop { $0 != 0x0A }
            case (UInt8(ascii: "/"), UInt8(ascii: "*")):
                while rest.count >= 2, !rest.starts(with: "*/".utf8) { rest.removeFirst() }
                rest = rest.dropFirst(2)
            case (UInt8(ascii: "\""), let first):
                while let inner = rest.popFirst(), inner != UInt8(ascii: "\"") {
                    if inner == UInt8(ascii: "\\") { rest = rest.dropFirst() }
                }
                let next = rest.first { $0 > 0x20 }
                if first == UInt8(ascii: "."), next == UInt8(ascii: ":") { count += 1 }
            default: break
            }
        }
        return count
    }
}
