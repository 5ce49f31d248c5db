// Package filesystem is what the containers of a simulated remote see of files: a [Tree]
// is one container's, with what its image has, what is mounted and what was written
// (tree.go), and a [Volume] is shared by those that mount it (volumes.go).
//
// Files are worked out, not kept. What a container writes is a list of [Write]s at offsets
// from its start, past and future, and a file is what those that have happened by a time
// make of what was placed. So what a program will do can change with its end.
//
// It knows containers only as a [Writer], and neither locks nor waits: that is its
// callers' to do. It may import package shell and the contract.
package filesystem
