// Package crilog reads the log files that container runtimes write for CRI: one
// line a record,
//
//	2026-01-02T15:04:05.000000000Z stdout F text
//
// with a time, the stream, a tag (P: the line goes on in the next record of its
// stream, F: it ends here) and the text.
//
// [Parse] reads a record, [Lines] cuts a growing file into records, [TailOffset]
// finds where the last lines begin, and [Writer] turns records into what the
// container wrote, under the kubelet's options.
package crilog
