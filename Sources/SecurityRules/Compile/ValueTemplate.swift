import JSONTree

/// A value in a rules file whose strings are expressions.
indirect enum ValueTemplate: Sendable {
    case node(Node)
    /// The index of its first instruction.
    case expression(Int32)
    case object([(key: Key, value: ValueTemplate)])
}

/// A fault, and the text that contains it.
struct TextFault: Error {
    let error: ExpressionError
    let text: LocatedString

    init(error: ExpressionError, text: LocatedString) { (self.error, self.text) = (error, text) }
    /// A fault of the whole text.
    init(_ message: String, _ text: LocatedString) { self.init(error: ExpressionError(offset: 0, message: message), text: text) }
}

/// Compiles a `ValueTemplate`.
struct TemplateCompiler {
    /// The depth of the node's place.
    let depth: Int
    let scope: Scope
    let functions: Functions
    /// Called for each expression before it is checked; throws if it uses a name that it must not see.
    var mustNotSee: (LocatedString) throws(TextFault) -> Void = { _ throws(TextFault) in }

    func compile(_ json: LocatedJSON, _ builder: inout ProgramBuilder) throws(TextFault) -> ValueTemplate {
        switch json.value {
        case .null: return .node(.null)
        case .bool(let value): return .node(.bool(value))
        case .number(let node): return .node(node)
        case .string(let text):
            try mustNotSee(text)
            do throws(ExpressionError) {
                let expression = try ExpressionParser.parse(text.value)
                return .expression(builder.lower(try Checker.value(expression, scope: scope, functions: functions), depth: depth))
            } catch { throw TextFault(error: error, text: text) }
        case .array(let elements):
            var members: [(key: Key, value: ValueTemplate)] = []
            for (i, element) in elements.enumerated() { members.append((Key(index: i), try compile(element, &builder))) }
            return .object(members)
        case .object(let members):
            var made: [(key: Key, value: ValueTemplate)] = []
            for member in members {
                let key = Key(member.name.value)
                func fault(_ message: String) -> TextFault { TextFault(message, member.name) }
                guard key.isValid else { throw fault("'\(member.name.value)' cannot be a key of data.") }
                guard !PathTemplate.isMeant(by: member.name.value) else {
                    throw fault("'\(member.name.value)' would be a key as it stands here: only places have values such as {user}.")
                }
                guard !made.contains(where: { $0.key == key }) else { throw fault("Duplicate key '\(key)'.") }
                made.append((key, try compile(member.value, &builder)))
            }
            return .object(made)
        }
    }
}

extension Evaluator {
    mutating func node(_ template: ValueTemplate) throws(Fault) -> Node {
        switch template {
        case .node(let node): return node
        case .expression(let instruction):
            defer { dropScratch(to: 0) }
            switch try value(instruction) {
            case .number(let number): return .number(number)
            case .object: return .null
            case let value: return value.node
            }
        case .object(let members):
            var children: [(Key, Node)] = []
            for (key, value) in members { children.append((key, try node(value))) }
            return .object(children)
        }
    }
}
