// Package channelconn makes a net.Conn with deadlines of an SSH channel, which has
// none. It knows nothing of tasks and imports nothing of burstlet.
package channelconn
