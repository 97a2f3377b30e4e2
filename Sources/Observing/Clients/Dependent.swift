package import Commits
package import JSONTree

/// An observer whose permission depends on data. It is rechecked when one of these places changes (contract §8.3). Most rules read no data, so their
/// observers have no dependent.
package final class Dependent: Sendable {
    package let client: Client
    package let observation: Observation
    /// The places that the read rules read when they allowed it.
    package let places: [Path]
    /// The places among them whose whole subtree counts.
    package let subtreeDependencies: Set<Path>

    package init(_ client: Client, _ observation: Observation, _ places: [Path], subtreeDependencies: Set<Path> = []) {
        self.client = client
        self.observation = observation
        self.places = places
        self.subtreeDependencies = subtreeDependencies
    }
}
