// Package sshchannel makes a net.Conn with deadlines of an SSH channel, which has none.
// It knows neither hosts nor tasks, and imports of the project what a deadline is.
package sshchannel
