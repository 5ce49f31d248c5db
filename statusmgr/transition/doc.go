// Package transition says which statuses of containers may follow which: one that has ended runs
// again only where its restart policy and rules allow that, as the API server validates it. It is
// pure, and imports nothing of the project.
package transition
