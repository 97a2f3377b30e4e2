import Dispatch
public import Journal

extension JournalStore: JournalStorage {
    public var isDurable: Bool { true }
    public var settingStore: any SettingStore { self }

    public func open(_ namespace: String) throws(JournalError) -> OpenedJournal {
        OpenedJournal(try recover(namespace), journal(for: namespace))
    }

    public func close(_ done: @escaping @Sendable (JournalError?) -> Void) {
        // Not on the journal queue, which it waits for.
        DispatchQueue.global().async { [self] in
            do throws(JournalError) {
                try close()
                done(nil)
            } catch { done(error) }
        }
    }
}
