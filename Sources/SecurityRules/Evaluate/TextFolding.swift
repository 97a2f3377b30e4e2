@_spi(_Unicode) import Swift

/// Folds texts for comparison in a search: canonically decomposed, marks removed, case folded.
enum TextFolding {
    /// The folded text. Linear: each character is decomposed by itself. The order of marks does not matter, as all are removed.
    static func fold(_ text: String) -> String {
        var folded = ""
        folded.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            if scalar.value < 0x80 {
                let isUpper = scalar.value >= 0x41 && scalar.value <= 0x5A
                folded.unicodeScalars.append(isUpper ? Unicode.Scalar(UInt8(scalar.value) | 0x20) : scalar)
            } else {
                for part in String(scalar)._nfd { append(part, to: &folded) }
            }
        }
        return folded
    }

    /// Appends the folded form of a decomposed character. Folding via upper case turns `ß` and `ẞ` into `ss`, and all three sigmas into `σ`.
    private static func append(_ scalar: Unicode.Scalar, to text: inout String) {
        let properties = scalar.properties
        switch properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: return
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .letterNumber, .otherSymbol: break
        default: return text.unicodeScalars.append(scalar)
        }
        for lower in properties.lowercaseMapping.unicodeScalars {
            for upper in lower.properties.uppercaseMapping.unicodeScalars {
                for part in upper.properties.lowercaseMapping.unicodeScalars where !isMark(part) { text.unicodeScalars.append(part) }
            }
        }
    }

    private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .spacingMark, .enclosingMark: true
        default: false
        }
    }
}
