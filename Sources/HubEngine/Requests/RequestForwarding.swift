/// Carries out requests that only another hub of the cluster may carry out. It is the boundary between the engine of one hub, which knows
/// no other hubs, and the cluster (`Forwarding`). On the database queue.
protocol RequestForwarding: AnyObject {
    /// Takes over a request if the writer must carry it out, and answers it later. False if this hub should carry it out.
    func forwardIfNeeded(_ item: SubmittedRequest) -> Bool
}
