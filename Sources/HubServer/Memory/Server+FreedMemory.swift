import HubEngine

extension Server {
    /// Whether clients hold so many bytes less than at their most since this was last true (``ServerLimits/memoryBytes``). From
    /// any thread.
    public func takeFallOfMemory(over bytes: Int) -> Bool { memory.budget.takeFall(over: bytes) }
}
