// Users of a database also need its requests, answers and clients.
@_exported public import Commits
@_exported public import Observing
