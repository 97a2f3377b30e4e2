/// Formats numbers like JavaScript: the shortest digits that read back, in plain notation up to 10^21, with an exponent beyond.
enum NumberText {
    static func format(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        if value.isInfinite { return value < 0 ? "-Infinity" : "Infinity" }
        if value == 0 { return "0" }
        if value.magnitude < 9_007_199_254_740_992, value.rounded(.towardZero) == value { return String(Int64(value)) }

        // Swift's description has the right digits in another layout: split it into digits and the position of the point.
        var digits: [UInt8] = []
        var point = 0
        var exponent = 0
        var seenPoint = false
        let text = Array(value.magnitude.description.utf8)
        for (i, byte) in text.enumerated() {
            if byte == UInt8(ascii: "e") {
                exponent = Int(String(decoding: text[(i + 1)...], as: UTF8.self)) ?? 0
                break
            }
            if byte == UInt8(ascii: ".") {
                seenPoint = true
                continue
            }
            digits.append(byte)
            if !seenPoint { point += 1 }
        }
        let leading = digits.prefix { $0 == UInt8(ascii: "0") }.count
        digits.removeFirst(leading)
        point += exponent - leading
        while digits.last == UInt8(ascii: "0") { digits.removeLast() }

        let number = String(decoding: digits, as: UTF8.self)
        let sign = value < 0 ? "-" : ""
        let count = digits.count
        if count <= point, point <= 21 { return sign + number + String(repeating: "0", count: point - count) }
        if point > 0, point <= 21 { return sign + number.prefix(point) + "." + number.dropFirst(point) }
        if point > -6, point <= 0 { return sign + "0." + String(repeating: "0", count: -point) + number }
        let power = point - 1
        let mantissa = count == 1 ? number : number.prefix(1) + "." + number.dropFirst()
        return sign + mantissa + (power < 0 ? "e-" : "e+") + String(power.magnitude)
    }
}
