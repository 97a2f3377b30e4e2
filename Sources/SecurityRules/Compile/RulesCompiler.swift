import JSONTree

/// Compiles the text of a rules file into its program, collecting all faults.
struct RulesCompiler {
    private let text: RulesText
    private var errors: [LocatedError] = []
    private var unsupported: [LocatedError] = []
    private var builder = ProgramBuilder()
    private let functions: Functions
    /// The texts of all counters, copies and inboxes.
    private var counterTexts: [LocatedString] = []
    private var copyTexts: [LocatedString] = []
    private var inboxTexts: [LocatedString] = []
    /// Where each `.notify` stands, and its rule node.
    private var notifyTexts: [(text: LocatedString, place: Int)] = []
    private var watchTexts: [LocatedString] = []
    /// The places with a `.geoIndex`.
    private var geo = GeoPlaces(root: SourceNode(offset: 0))
    /// Whether the file was accepted by an earlier version: then consequences that this version refuses are ignored.
    private let isInForce: Bool
    /// Offsets of faults in function bodies that were already reported, so that several calls report each once.
    private var reportedFaults: Set<Int> = []

    /// - Parameter keepsUnsupported: whether keys that this version does not implement are ignored; otherwise they are faults.
    static func compile(
        _ source: String, textWork: Int = RulesLimits.textWork, functionParts: Int = RulesLimits.functionParts,
        keepsUnsupported: Bool = false
    ) throws(RulesErrors) -> (program: Program, unsupported: [RuleError]) {
        var compiler = RulesCompiler(
            text: RulesText(source), functions: Functions(partsLimit: functionParts), isInForce: keepsUnsupported)
        guard compiler.text.bytes.count <= RuleSet.maxBytes else {
            throw .tooLarge
        }
        compiler.read()
        if !keepsUnsupported { compiler.errors += compiler.unsupported }
        if !compiler.errors.isEmpty { throw RulesErrors(compiler.errors, in: compiler.text) }
        compiler.builder.sharePaths()
        let unsupported = RulesErrors(compiler.unsupported, in: compiler.text).errors
        return (Program(compiler.builder, textWork: textWork), unsupported)
    }

    private init(text: RulesText, functions: Functions, isInForce: Bool) {
        (self.text, self.functions, self.isInForce) = (text, functions, isInForce)
    }

    private mutating func read() {
        let json: LocatedJSON
        do throws(LocatedError) {
            var parser = LocatedJSONParser(text)
            json = try parser.parse()
        } catch {
            errors.append(error)
            return
        }
        var reader = RulesFileReader()
        reader.isInForce = isInForce
        let root = reader.read(json)
        errors += reader.errors
        unsupported = reader.unsupported
        functions.add(reader.functions, text, &errors)
        builder.functions = reader.functions.map { function in
            let (line, column) = text.position(at: function.body.quote)
            let source = RuleSource(text: function.body.value, line: line, column: column, offset: function.body.quote)
            return (function.key.value, source)
        }
        geo = GeoPlaces(root: root)
        _ = add(root, pattern: .root, depth: 0, captures: [:])
        let (counters, details) = (builder.counters, builder.details)
        let texts = counterTexts + copyTexts + inboxTexts + watchTexts
        // Checked pairwise here and on every write: O(n²).
        if texts.count > RulesLimits.countersAndCopies {
            let message = "At most \(RulesLimits.countersAndCopies) counters, copies, inboxes and watches."
            errors.append(LocatedError(offset: texts[RulesLimits.countersAndCopies].quote, message: message))
        } else if errors.isEmpty, let circular = ConsequenceCycles.find(counters, details, builder.watches) {
            let message = circular < counters.count ? "A counter that counts what depends on it never comes to an end."
                : circular < counters.count + copyTexts.count ? "A copy that is copied to where it came from never comes to an end."
                : circular >= texts.count - watchTexts.count
                    ? "A watch whose hits are written where it watches never comes to an end."
                : "A row that has rows follow where it came from never comes to an end."
            errors.append(LocatedError(offset: texts[circular].quote, message: message))
        }
        if errors.isEmpty, !isInForce { checkInboxOverlap() }
        if errors.isEmpty { checkFunnels() }
    }

    /// Refuses counters of notifications at or below a place with a `.notify`: counting one would send the next.
    private mutating func checkFunnels() {
        let patterns = Set(notifyTexts.map { builder.details[$0.place].pattern })
        for (text, place) in notifyTexts {
            let funnels = builder.details[place].notifications.compactMap(\.funnel)
            let isEndless = funnels.contains { funnel in
                patterns.contains { pattern in
                    pattern.depth <= funnel.segments.count + 1 && zip(pattern.keys, funnel.segments).allSatisfy { key, segment in
                        if case .key(let known) = segment { key == known || key.string.hasPrefix("$") } else { true }
                    }
                }
            }
            guard isEndless else { continue }
            addConsequence(
                ExpressionError(offset: 0, message: "Its 'funnel' lies where a '.notify' is: counting a notification would send the next."),
                of: text)
        }
    }

    /// Refuses two inboxes with rows at one place: the second row would overwrite the first, or lie inside it.
    private mutating func checkInboxOverlap() {
        let places = builder.details.enumerated().flatMap { node, details in details.inboxes.map { (to: $0.to, node: node) } }
        for (i, place) in places.enumerated() {
            let other = places[..<i].firstIndex { $0.to.mayMeet(place.to, isSameNode: $0.node == place.node) }
            guard let other else { continue }
            let (line, column) = text.position(at: inboxTexts[other].quote)
            var message = "A row can be at the place of one of the inbox at \(line):\(column), and would overwrite it."
            if place.to.hasGeneratedKey { message += " Rows of one node need names: '+created' and '+closed'." }
            errors.append(LocatedError(offset: inboxTexts[i].quote, message: message))
        }
    }

    /// Adds a rule node with all below it; returns its index.
    private mutating func add(_ node: SourceNode, pattern: Path, depth: Int, captures: [String: Int]) -> Int32 {
        let number = builder.addPlace(PlaceDetails(pattern: pattern, indexes: node.indexes, messages: node.messages.mapValues(\.value)))
        if let index = node.geoIndex { builder.setGeoIndex(index, at: number) }
        if let terms = node.countTerms { builder.setCountTerms(terms, at: number) }
        for (kind, rule) in node.rules {
            let instruction = compile(rule, Scope(kind: kind, captures: captures), depth)
            let (line, column) = text.position(at: rule.offset)
            builder.set(kind, instruction, RuleSource(text: rule.source, line: line, column: column, offset: rule.offset), at: number)
        }
        let scope = Scope(kind: .write, captures: captures)
        if let drop = node.drop { builder.setDrop(compile(drop, scope, depth), at: number) }
        if let value = node.defaultValue {
            builder.setDefault(DefaultRule(value: compile(value, scope, depth), isKept: value.isKept), at: number)
        }
        if let account = node.account { add(account, pattern, captures) }
        builder.setRate(node.rate?.rate, at: number)
        for removal in node.removes {
            let compiler = RemovalCompiler(depth: depth, captures: captures, functions: functions)
            do throws(TextFault) {
                builder.addRemoval(try compiler.compile(removal, &builder), at: number)
            } catch { addConsequence(error.error, of: error.text) }
        }
        let compiler = CounterCompiler(place: number, pattern: pattern, captures: captures, functions: functions)
        for counter in node.counts {
            do throws(ExpressionError) {
                builder.addCounter(try compiler.compile(counter, &builder))
                counterTexts.append(counter.text)
            } catch { addConsequence(error, of: counter.text) }
        }
        for copy in node.copies {
            let compiler = CopyCompiler(depth: depth, captures: captures, functions: functions)
            do throws(TextFault) {
                builder.addCopy(try compiler.compile(copy, &builder), at: number)
                copyTexts.append(copy.to)
            } catch { addConsequence(error.error, of: error.text) }
        }
        for (i, inbox) in node.inboxes.enumerated() {
            let compiler = InboxCompiler(depth: depth, captures: captures, functions: functions, mayShareRows: isInForce)
            do throws(TextFault) {
                builder.addInbox(try compiler.compile(inbox, number: i, &builder), at: number)
                inboxTexts.append(inbox.to)
            } catch { addConsequence(error.error, of: error.text) }
        }
        add(deliveries: node, at: number, depth, captures)
        if !node.watches.isEmpty { addWatches(of: node, pattern, captures, at: number) }
        for expiry in node.expiries {
            if expiry.patch == nil, node.counts.contains(where: \.creates) {
                let message = "The node's counters would create it again. Let what they count expire."
                addConsequence(ExpressionError(offset: 0, message: message), of: expiry.at)
            }
            let (start, compiler) = (builder.code.count, ExpiryCompiler(depth: depth, captures: captures, functions: functions))
            do throws(TextFault) {
                builder.addExpiry(try compiler.compile(expiry, &builder), from: start, at: number)
            } catch { addConsequence(error.error, of: error.text) }
        }
        var children: [(Key, Int32)] = []
        for child in node.children {
            let place = add(child.node, pattern: pattern.appending(child.key), depth: depth + 1, captures: captures)
            children.append((child.key, place))
        }
        var wildcard: Int32 = -1
        if let (name, child) = node.wildcard {
            var inner = captures
            if inner.updateValue(depth + 1, forKey: name.value) != nil {
                errors.append(LocatedError(offset: name.quote, message: "Wildcard '\(name.value)' is already in use."))
            }
            wildcard = add(child, pattern: pattern.appending(Key(name.value)), depth: depth + 1, captures: inner)
        }
        builder.setChildren(children, wildcard: wildcard, at: number)
        return number
    }

    private mutating func add(deliveries node: SourceNode, at number: Int32, _ depth: Int, _ captures: [String: Int]) {
        let compiler = DeliveryCompiler(depth: depth, captures: captures, functions: functions)
        for notification in node.notifications {
            do throws(TextFault) {
                builder.addNotifications(try compiler.compile(notification, &builder), at: number)
                notifyTexts.append((notification.devices, Int(number)))
            } catch { addConsequence(error.error, of: error.text) }
        }
        for webhook in node.webhooks {
            do throws(TextFault) { builder.addWebhook(try compiler.compile(webhook, &builder), at: number) } catch {
                addConsequence(error.error, of: error.text)
            }
        }
    }

    private mutating func addWatches(of node: SourceNode, _ pattern: Path, _ captures: [String: Int], at place: Int32) {
        let compiler = WatchCompiler(pattern: pattern, captures: captures, functions: functions, geo: geo)
        for (i, watch) in node.watches.enumerated() {
            do throws(TextFault) {
                builder.addWatch(try compiler.compile(watch, number: i, &builder), at: place)
                watchTexts.append(watch.to)
            } catch { addConsequence(error.error, of: error.text) }
        }
        guard builder.watches.count > RulesLimits.watches else { return }
        errors.append(LocatedError(offset: watchTexts[RulesLimits.watches].quote, message: "At most \(RulesLimits.watches) watches."))
    }

    private mutating func add(_ account: SourceAccount, _ pattern: Path, _ captures: [String: Int]) {
        if case .captures(let names) = account {
            for name in names where captures[name.value] == nil {
                let wildcards = captures.keys.sorted()
                var hint = Spelling.nearest(name.value, in: wildcards).map { "did you mean '\($0)'?" }
                if hint == nil, !name.value.hasPrefix("$") { hint = "a text in the id's place is {\"set\": \"deleted\"}" }
                errors.append(LocatedError(offset: name.quote, message: "'\(name.value)' is no wildcard of this place.", hint: hint))
            }
        }
        builder.accounts += account.rules(at: pattern, captures: captures)
    }

    /// Records a fault in a consequence: the access rules stay in force without it.
    private mutating func addConsequence(_ error: ExpressionError, of text: LocatedString) {
        let known = errors.count
        add(error, of: text)
        guard isInForce else { return }
        unsupported += errors[known...]
        errors.removeSubrange(known...)
    }

    private mutating func compile(_ value: SourceDefault, _ scope: Scope, _ depth: Int) -> DefaultRule.Value {
        switch value.value {
        case .node(let node): return .node(node)
        case .expression(let string):
            do throws(ExpressionError) {
                let expression = try ExpressionParser.parse(string.value)
                return .expression(builder.lower(try Checker.value(expression, scope: scope, functions: functions), depth: depth))
            } catch {
                add(error, of: string)
                return .expression(-1)
            }
        }
    }

    /// The rule's first instruction; -1 after recording a fault.
    private mutating func compile(_ rule: SourceRule, _ scope: Scope, _ depth: Int) -> Int32 {
        switch rule.text {
        case .constant(let value): return builder.lower(Term(kind: .constant(.bool(value)), span: .none), depth: depth)
        case .expression(let string):
            do throws(ExpressionError) {
                let expression = try ExpressionParser.parse(string.value)
                return builder.lower(try Checker.rule(expression, scope: scope, functions: functions), depth: depth)
            } catch {
                add(error, of: string)
                return -1
            }
        }
    }

    private mutating func add(_ error: ExpressionError, of rule: LocatedString) {
        guard error.function >= 0 else {
            errors.append(LocatedError(offset: text.offset(in: rule, at: error.offset), message: error.message, hint: error.hint))
            return
        }
        let offset = text.offset(in: functions.all[Int(error.function)].source.body, at: error.offset)
        guard reportedFaults.insert(offset).inserted else { return }
        let (line, column) = text.position(at: rule.quote)
        errors.append(LocatedError(offset: offset, message: error.message, hint: error.hint ?? "called by the rule at \(line):\(column)"))
    }
}
