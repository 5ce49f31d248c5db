// Package bound keeps what clients of an HTTP server ask for within bounds, so that none
// of them, known or not, uses up the process.
//
//	Conns    connections; when there are too many, idle ones go first (conns.go)
//	Slots    what goes on at the same time, whoever wants it (slots.go)
//	Shares   the same for each client by itself, so that one does not crowd out the others
//
// What does not fit is refused at once and counted ([Metrics]).
package bound
