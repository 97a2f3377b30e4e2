import ArgumentParser
import JSONTree
import SecurityRules
import ViglaClient

/// The argument of `vigla rules explain`: a place in a hub, or with `--list` a file.
struct ExplainedRules {
    let text: String

    init(argument: String) { text = argument }

    /// Whether it names a hub, where a file is possible as well.
    var isHub: Bool { text.contains("://") || (text.contains(":") && !Checks.isFile(text)) }

    func url() throws -> HubURL { try HubURL(argument: text) }
}

/// `vigla rules explain --list`
extension RulesExplain {
    func printList() throws {
        let (bytes, places) = rules.isHub ? fromHub(try rules.url()) : fromFile()
        let out = StandardStream.output
        if json { return out.write(bytes) }
        for line in places.lines { out.line(UserText.plain(line)) }
    }

    private func fromFile() -> ([UInt8], [PlaceSummary]) {
        switch RulesSource.read(rules.text) {
        case .success(let rules):
            let places = rules.summary
            return (places.json, places)
        case .failure(let fault):
            for line in fault.lines { StandardStream.error.line(line) }
            RulesExplain.exit(withError: ExitCode(1))
        }
    }

    private func fromHub(_ url: HubURL) -> ([UInt8], [PlaceSummary]) {
        let query = HubURL(url.address).query(adding: url.path.isRoot ? [] : [.init("place", "\(url.path)")])
        let (status, body) = HubRequest.send(
            "GET", "/.settings/explainRules.json" + query, to: url.address, tls: tlsOptions, credential: credential.read())
        guard status == 200, let places = (try? JSONValue(body))?.elements else {
            HubRequest.refused(status, body, by: url.address, credential, advice: "Is this a hub?")
        }
        return (body, places.map { place in
            let sentences = (place["sentences"]?.elements ?? []).map { sentence in
                // A newer hub may have other kinds; only the text is shown.
                RuleSentence(kind: .init(rawValue: sentence["kind"]?.string ?? "") ?? .follows, text: sentence["text"]?.string ?? "")
            }
            return PlaceSummary(place: place["place"]?.string ?? "", sentences: sentences)
        })
    }
}
